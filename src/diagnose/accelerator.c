/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose/accelerator.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/param.h"
#include "core/str.h"

/* MLPerf Storage's and DLIO's workloads: samples of a batch, and the seconds
 * that an accelerator computes on one. */
static const struct {
	const char *name;
	double batch, seconds;
} presets[] = {
	{ "unet3d-v100", 4, 1.3604 },	  { "unet3d-a100", 7, 0.636 },
	{ "unet3d-h100", 7, 0.323 },	  { "resnet50-v100", 64, 0.195 },
	{ "resnet50-a100", 400, 0.435 },  { "resnet50-h100", 400, 0.224 },
	{ "cosmoflow-v100", 1, 0.00936 }, { "cosmoflow-a100", 1, 0.00551 },
	{ "cosmoflow-h100", 1, 0.0035 },
};

static const char *preset_at(size_t i, const void *data)
{
	(void)data;
	return presets[i].name;
}

static int unknown(const char *text, struct mr_err *err)
{
	const char *near = mr_nearest(text, MR_COUNT(presets), preset_at, NULL);
	struct mr_str all = { 0 };

	for (size_t i = 0; i < MR_COUNT(presets); i++)
		mr_str_addf(&all, " %s", presets[i].name);
	mr_err_set(err, MR_EINVAL,
		   "accelerator '%s': %s%s%swant samples per second, such as "
		   "1790, or one of%s",
		   text, near ? "did you mean '" : "", near ? near : "",
		   near ? "'? " : "", all.text ? all.text : "");
	mr_str_fini(&all);
	return MR_EINVAL;
}

int mr_accelerator_parse(const char *text, double *rate, const char **name,
			 struct mr_err *err)
{
	char *end;
	double v = strtod(text, &end);

	for (size_t i = 0; i < MR_COUNT(presets); i++) {
		if (strcmp(text, presets[i].name) != 0)
			continue;
		*rate = presets[i].batch / presets[i].seconds;
		*name = presets[i].name;
		return 0;
	}
	if (end == text || *end)
		return unknown(text, err);
	if (!isfinite(v) || v < 1e-6 || v > 1e12)
		return mr_err_set(err, MR_EINVAL,
				  "accelerator '%s': want samples per second, "
				  "more than 0 and up to 1e12",
				  text);
	*rate = v;
	*name = "given";
	return 0;
}
