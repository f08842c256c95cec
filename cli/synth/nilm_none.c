/* SPDX-License-Identifier: Apache-2.0 */
/* nilm in a build without libhdf5: says so. */
#include "synth/synth.h"

static int check(const struct synth_options *opt, struct mr_err *err)
{
	(void)opt;
	return mr_err_set(err, MR_EUNSUPPORTED,
			  "nilm is not in this build: it needs the library "
			  "hdf5 (Debian: apt install libhdf5-dev, and build "
			  "again)");
}

static int run(struct synth *s, struct mr_err *err)
{
	return check(s->opt, err);
}

const struct synth_kind synth_kind_nilm = {
	.name = "nilm",
	.help = "HDF5 files of voltage and current (not in this build)",
	.options = " duration ",
	.check = check,
	.run = run,
};
