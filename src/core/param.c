/* SPDX-License-Identifier: Apache-2.0 */
#include "core/param.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/tensor.h"

size_t mr_param_count(const struct mr_param *params)
{
	size_t n = 0;

	while (params && params[n].type != MR_P_END)
		n++;
	return n;
}

const struct mr_param *mr_param_find(const struct mr_param *params,
				     const char *name)
{
	size_t n = mr_param_count(params);

	for (size_t i = 0; i < n; i++)
		if (!strcmp(params[i].name, name))
			return &params[i];
	return NULL;
}

const char *mr_nearest(const char *name, size_t n,
		       const char *(*get)(size_t i, const void *data),
		       const void *data)
{
	int best = (int)(strlen(name) + 2) / 3;
	const char *found = NULL;

	for (size_t i = 0; i < n; i++) {
		const char *s = get(i, data);
		int d = mr_str_distance(name, s);

		if (d <= best && (!found || d < best)) {
			best = d;
			found = s;
		}
	}
	return found;
}

static const char *param_name(size_t i, const void *data)
{
	return ((const struct mr_param *)data)[i].name;
}

const char *mr_param_nearest(const struct mr_param *params, const char *name)
{
	return mr_nearest(name, mr_param_count(params), param_name, params);
}

static void *member(const struct mr_param *p, void *self)
{
	return (char *)self + p->offset;
}

static const void *member_const(const struct mr_param *p, const void *self)
{
	return (const char *)self + p->offset;
}

static int wrong(const struct mr_param *p, const char *value,
		 struct mr_err *err)
{
	struct mr_str s = { 0 };

	mr_param_range(p, &s);
	mr_err_set(err, MR_EINVAL, "%s=%s: want %s", p->name, value,
		   s.text ? s.text : "another value");
	mr_str_fini(&s);
	return MR_EINVAL;
}

static bool in_range(const struct mr_param *p, double v)
{
	return v >= p->min && v <= p->max;
}

/* A number and its end; false when there is none, or it is not finite. */
static bool number(const char *s, double *v, const char **end)
{
	char *e;

	*v = strtod(s, &e);
	*end = e;
	return e != s && isfinite(*v);
}

static bool integer(const char *s, int64_t *v, const char **end)
{
	char *e;

	errno = 0;
	*v = strtoll(s, &e, 10);
	*end = e;
	return e != s && errno == 0;
}

static bool size_unit(const char *end, double *scale)
{
	static const char units[] = "KMGT";
	const char *u;

	*scale = 1;
	if (!*end)
		return true;
	u = strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end);
	if (!u)
		return false;
	*scale = ldexp(1, 10 * (int)(u - units + 1));
	end++;
	if (*end == 'i')
		end++;
	return !*end || !strcmp(end, "B");
}

static bool time_unit(const char *end, double *scale)
{
	static const struct {
		const char *name;
		double scale;
	} unit[] = { { "", 1 },	 { "us", 1e-6 }, { "ms", 1e-3 },
		     { "s", 1 }, { "m", 60 },	 { "h", 3600 } };

	for (size_t i = 0; i < sizeof(unit) / sizeof(unit[0]); i++) {
		if (!strcmp(end, unit[i].name)) {
			*scale = unit[i].scale;
			return true;
		}
	}
	return false;
}

static int word_find(const char *const *words, const char *value)
{
	for (int i = 0; words[i]; i++)
		if (!strcmp(words[i], value))
			return i;
	return -1;
}

static int set_ints(const struct mr_param *p, struct mr_ints *out,
		    const char *value, struct mr_err *err)
{
	struct mr_ints list = { 0 };
	const char *s = value;

	if (!*value) {
		*out = list;
		return 0;
	}
	for (;;) {
		int64_t v;

		if (list.n == MR_MAX_DIMS)
			return mr_err_set(err, MR_EINVAL,
					  "%s=%s: at most %d numbers", p->name,
					  value, MR_MAX_DIMS);
		if (!integer(s, &v, &s) || !in_range(p, (double)v))
			return wrong(p, value, err);
		list.v[list.n++] = v;
		if (!*s)
			break;
		if (*s != ',' && *s != 'x')
			return wrong(p, value, err);
		s++;
	}
	*out = list;
	return 0;
}

static int set_reals(const struct mr_param *p, struct mr_reals *out,
		     const char *value, struct mr_err *err)
{
	struct mr_reals list = { 0 };
	const char *s = value;

	if (!*value) {
		*out = list;
		return 0;
	}
	for (;;) {
		double v;

		if ((size_t)list.n == sizeof(list.v) / sizeof(list.v[0]))
			return mr_err_set(err, MR_EINVAL,
					  "%s=%s: at most %d numbers", p->name,
					  value, list.n);
		if (!number(s, &v, &s) || !in_range(p, v))
			return wrong(p, value, err);
		list.v[list.n++] = v;
		if (!*s)
			break;
		if (*s++ != ',')
			return wrong(p, value, err);
	}
	*out = list;
	return 0;
}

static int set_number(const struct mr_param *p, void *to, const char *value,
		      struct mr_err *err)
{
	double v, scale = 1;
	const char *end;
	int64_t n;

	if (p->type == MR_P_INT) {
		if (!integer(value, &n, &end) || *end ||
		    !in_range(p, (double)n))
			return wrong(p, value, err);
		memcpy(to, &n, sizeof(n));
		return 0;
	}
	if (!number(value, &v, &end))
		return wrong(p, value, err);
	if (p->type == MR_P_SIZE ? !size_unit(end, &scale) :
	    p->type == MR_P_TIME ? !time_unit(end, &scale) :
				   *end != 0)
		return wrong(p, value, err);
	v *= scale;
	if (!in_range(p, v))
		return wrong(p, value, err);
	if (p->type == MR_P_SIZE) {
		/* 2^63 bytes are more than any machine has, and fit a cast. */
		uint64_t u = v < 9e18 ? (uint64_t)v : (uint64_t)9e18;

		memcpy(to, &u, sizeof(u));
	} else {
		memcpy(to, &v, sizeof(v));
	}
	return 0;
}

static int set_word(const struct mr_param *p, void *to, const char *value,
		    struct mr_err *err)
{
	static const char *const yes_no[] = { "no", "yes", "false", "true", "0",
					      "1",  "off", "on",    NULL };
	int i;

	if (p->type == MR_P_BOOL) {
		i = word_find(yes_no, value);
		if (i < 0)
			return wrong(p, value, err);
		*(bool *)to = i & 1;
	} else if (p->type == MR_P_ENUM) {
		i = word_find(p->words, value);
		if (i < 0)
			return wrong(p, value, err);
		*(int *)to = i;
	} else {
		enum mr_dtype t = mr_dtype_parse(value);

		if (t == MR_NONE)
			return wrong(p, value, err);
		*(enum mr_dtype *)to = t;
	}
	return 0;
}

int mr_param_set(const struct mr_param *p, void *self, const char *value,
		 struct mr_arena *strings, struct mr_err *err)
{
	void *to = member(p, self);

	switch (p->type) {
	case MR_P_INT:
	case MR_P_REAL:
	case MR_P_SIZE:
	case MR_P_TIME:
		return set_number(p, to, value, err);
	case MR_P_BOOL:
	case MR_P_ENUM:
	case MR_P_DTYPE:
		return set_word(p, to, value, err);
	case MR_P_INTS:
		return set_ints(p, to, value, err);
	case MR_P_REALS:
		return set_reals(p, to, value, err);
	case MR_P_TEXT: {
		size_t n = strlen(value) + 1;
		char *copy = strings ? mr_arena_take(strings, n) : NULL;

		if (strings && !copy)
			return mr_err_nomem(err, n);
		if (copy)
			memcpy(copy, value, n);
		*(const char **)to = copy ? copy : value;
		return 0;
	}
	case MR_P_END:
		break;
	}
	return mr_err_set(err, MR_EINVAL, "%s: unknown parameter type",
			  p->name);
}

void mr_param_defaults(const struct mr_param *params, void *self)
{
	size_t n = mr_param_count(params);

	for (size_t i = 0; i < n; i++)
		if (params[i].def)
			mr_param_set(&params[i], self, params[i].def, NULL,
				     NULL);
}

static bool member_fits(const struct mr_param *p, const void *self)
{
	const void *from = member_const(p, self);
	int n = 0;

	switch (p->type) {
	case MR_P_INT:
		return in_range(p, (double)*(const int64_t *)from);
	case MR_P_SIZE:
		return in_range(p, (double)*(const uint64_t *)from);
	case MR_P_REAL:
	case MR_P_TIME:
		return in_range(p, *(const double *)from);
	case MR_P_ENUM:
		while (p->words[n])
			n++;
		return *(const int *)from >= 0 && *(const int *)from < n;
	default:
		return true;
	}
}

int mr_param_check(const struct mr_param *params, const void *self,
		   struct mr_err *err)
{
	size_t n = mr_param_count(params);

	for (size_t i = 0; i < n; i++) {
		struct mr_str range = { 0 };

		if (member_fits(&params[i], self))
			continue;
		mr_param_range(&params[i], &range);
		mr_err_set(err, MR_EINVAL, "%s: want %s", params[i].name,
			   range.text ? range.text : "another value");
		mr_str_fini(&range);
		return MR_EINVAL;
	}
	return 0;
}

static void add_bounds(const struct mr_param *p, struct mr_str *out)
{
	if (p->max >= 1e15)
		mr_str_addf(out, ", at least %.15g", p->min);
	else
		mr_str_addf(out, ", %.15g to %.15g", p->min, p->max);
}

void mr_param_range(const struct mr_param *p, struct mr_str *out)
{
	switch (p->type) {
	case MR_P_INT:
		mr_str_add(out, "an integer");
		add_bounds(p, out);
		break;
	case MR_P_REAL:
		mr_str_add(out, "a number");
		if (p->min > -1e15)
			add_bounds(p, out);
		break;
	case MR_P_BOOL:
		mr_str_add(out, "yes or no");
		break;
	case MR_P_SIZE: {
		char buf[32];

		mr_str_add(out, "a size such as 512K, 64M or 2G");
		if (p->min > 0)
			mr_str_addf(out, ", at least %s",
				    mr_str_size(buf, p->min));
		break;
	}
	case MR_P_TIME:
		mr_str_add(out, "a time such as 10ms, 2s or 5m");
		if (p->min > 0)
			mr_str_addf(out, ", at least %.6gs", p->min);
		if (p->max < 1e6)
			mr_str_addf(out, ", at most %.6gs", p->max);
		break;
	case MR_P_TEXT:
		mr_str_add(out, "text");
		break;
	case MR_P_ENUM:
		for (int i = 0; p->words[i]; i++)
			mr_str_addf(out, "%s%s", i ? "|" : "", p->words[i]);
		break;
	case MR_P_DTYPE:
		for (int t = MR_U8; t < MR_DTYPES; t++)
			mr_str_addf(out, "%s%s", t > MR_U8 ? "|" : "",
				    mr_dtype_name((enum mr_dtype)t));
		break;
	case MR_P_INTS:
		mr_str_addf(out, "integers such as %s",
			    p->words ? p->words[0] : "224,224,3");
		break;
	case MR_P_REALS:
		mr_str_add(out, "numbers such as 0.5,0.25");
		break;
	case MR_P_END:
		break;
	}
}

void mr_param_text(const struct mr_param *p, const void *self,
		   struct mr_str *out)
{
	const void *from = member_const(p, self);

	switch (p->type) {
	case MR_P_INT:
		mr_str_addf(out, "%lld", (long long)*(const int64_t *)from);
		break;
	case MR_P_REAL:
	case MR_P_TIME:
		mr_str_addf(out, "%.15g", *(const double *)from);
		break;
	case MR_P_SIZE:
		mr_str_addf(out, "%llu",
			    (unsigned long long)*(const uint64_t *)from);
		break;
	case MR_P_BOOL:
		mr_str_add(out, *(const bool *)from ? "yes" : "no");
		break;
	case MR_P_TEXT: {
		const char *s = *(const char *const *)from;

		mr_str_add(out, s ? s : "");
		break;
	}
	case MR_P_ENUM:
		mr_str_add(out, p->words[*(const int *)from]);
		break;
	case MR_P_DTYPE:
		mr_str_add(out, mr_dtype_name(*(const enum mr_dtype *)from));
		break;
	case MR_P_INTS: {
		const struct mr_ints *l = from;

		for (int i = 0; i < l->n; i++)
			mr_str_addf(out, "%s%lld", i ? "," : "",
				    (long long)l->v[i]);
		break;
	}
	case MR_P_REALS: {
		const struct mr_reals *l = from;

		for (int i = 0; i < l->n; i++)
			mr_str_addf(out, "%s%.15g", i ? "," : "", l->v[i]);
		break;
	}
	case MR_P_END:
		break;
	}
}
