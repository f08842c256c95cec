/* SPDX-License-Identifier: Apache-2.0 */
#include "io/aws.h"

#include <stdio.h>
#include <unistd.h>

#include "core/file.h"
#include "core/mem.h"

enum { FILE_MAX = 1 << 20 };

static const char *env(const char *name)
{
	const char *text = getenv(name);

	return text && *text ? text : NULL;
}

/* ---- files of sections and lines "name = value" ---- */

static char *trim(char *s)
{
	char *end;

	s += strspn(s, " \t\r");
	end = s + strlen(s);
	while (end > s && strchr(" \t\r", end[-1]))
		*--end = 0;
	return s;
}

/* In the section `profile`, also when it is called "profile X". */
static bool is_section(char *line, const char *profile)
{
	char *end = strchr(line, ']');

	if (!end)
		return false;
	*end = 0;
	line = trim(line + 1);
	if (!strncmp(line, "profile ", 8))
		line = trim(line + 8);
	return !strcmp(line, profile);
}

struct setting {
	const char *name;
	char **to;
};

static int take_line(char *line, const struct setting *want, struct mr_err *err)
{
	char *value = strchr(line, '=');

	if (!value || *line == '#' || *line == ';')
		return 0;
	*value++ = 0;
	line = trim(line);
	for (; want->name; want++) {
		if (strcmp(line, want->name) || *want->to)
			continue;
		*want->to = mr_strdup(trim(value), err);
		return *want->to ? 0 : MR_ENOMEM;
	}
	return 0;
}

/* What a section of a file says; *found: there is such a section. */
static int read_section(const char *path, const char *profile,
			const struct setting *want, bool *found,
			struct mr_err *err)
{
	char *text, *line, *rest;
	size_t n;
	bool inside = false;
	int e;

	*found = false;
	if (access(path, F_OK))
		return 0;
	e = mr_file_read(path, FILE_MAX, &text, &n, err);
	if (e)
		return e;
	for (rest = text; !e && (line = strsep(&rest, "\n"));) {
		line = trim(line);
		if (*line == '[')
			inside = is_section(line, profile);
		else if (inside)
			e = take_line(line, want, err);
		*found |= inside;
	}
	free(text);
	return e;
}

/* The file that `name` names, else ~/.aws/`file`. */
static bool file_of(const char *name, const char *file, char *buf, size_t cap)
{
	const char *path = env(name), *home = env("HOME");
	int n = path ? snprintf(buf, cap, "%s", path) :
		home ? snprintf(buf, cap, "%s/.aws/%s", home, file) :
		       -1;

	return n > 0 && (size_t)n < cap;
}

/* ---- region and keys ---- */

static int set_region(struct mr_http_signer *s, const char *region,
		      struct mr_err *err)
{
	size_t n = strlen(region);

	if (!n || n >= sizeof(s->region) ||
	    strspn(region, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
			   "YZ0123456789-_") != n)
		return mr_err_set(err, MR_EINVAL,
				  "'%s' is no region of S3; want one such as "
				  "us-east-1",
				  region);
	memcpy(s->region, region, n + 1);
	return 0;
}

static int find_region(struct mr_http_signer *s, const char *profile,
		       bool *found, struct mr_err *err)
{
	const char *region = env("AWS_REGION");
	char path[4096], *in_file = NULL;
	const struct setting want[] = { { "region", &in_file },
					{ NULL, NULL } };
	int e = 0;

	if (!region)
		region = env("AWS_DEFAULT_REGION");
	if (file_of("AWS_CONFIG_FILE", "config", path, sizeof(path)))
		e = read_section(path, profile, want, found, err);
	if (!region)
		region = in_file ? in_file : "us-east-1";
	if (!e)
		e = set_region(s, region, err);
	free(in_file);
	return e;
}

static int keys_in_env(struct mr_http_signer *s, struct mr_err *err)
{
	s->key = mr_strdup(env("AWS_ACCESS_KEY_ID"), err);
	s->secret = mr_strdup(env("AWS_SECRET_ACCESS_KEY"), err);
	if (s->key && s->secret && env("AWS_SESSION_TOKEN"))
		s->token = mr_strdup(env("AWS_SESSION_TOKEN"), err);
	else if (s->key && s->secret)
		return 0;
	return s->key && s->secret && s->token ? 0 : MR_ENOMEM;
}

int mr_aws_find(struct mr_http_signer *s, struct mr_err *err)
{
	const char *profile = env("AWS_PROFILE");
	const char *name = profile ? profile : "default";
	char path[4096];
	const struct setting want[] = { { "aws_access_key_id", &s->key },
					{ "aws_secret_access_key", &s->secret },
					{ "aws_session_token", &s->token },
					{ NULL, NULL } };
	bool in_config = false, in_keys = false;
	int e = find_region(s, name, &in_config, err);

	if (e)
		return e;
	if (env("AWS_ACCESS_KEY_ID") && env("AWS_SECRET_ACCESS_KEY"))
		return keys_in_env(s, err);
	if (file_of("AWS_SHARED_CREDENTIALS_FILE", "credentials", path,
		    sizeof(path)))
		e = read_section(path, name, want, &in_keys, err);
	if (e)
		return e;
	if (profile && !in_config && !in_keys)
		return mr_err_set(err, MR_EINVAL,
				  "AWS_PROFILE is '%s', which is not in "
				  "~/.aws/credentials",
				  profile);
	if (!s->key != !s->secret)
		return mr_err_set(err, MR_EINVAL,
				  "%s: [%s] has only one of aws_access_key_id "
				  "and aws_secret_access_key",
				  path, name);
	return 0;
}
