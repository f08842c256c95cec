/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoints as files: one JSON object, replaced as a whole. */
#ifndef MR_CLI_CHECKPOINT_H
#define MR_CLI_CHECKPOINT_H

#include "millrace/millrace.h"

int cli_checkpoint_write(const char *path, const struct mr_state *st,
			 uint64_t digest, struct mr_err *err);
int cli_checkpoint_read(const char *path, struct mr_state *st, uint64_t *digest,
			struct mr_err *err);

#endif
