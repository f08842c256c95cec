/* SPDX-License-Identifier: Apache-2.0 */
/* Region and keys, from where the AWS tools have them. */
#ifndef MR_IO_AWS_H
#define MR_IO_AWS_H

#include "io/http.h"

/* Fills s, which is zeroed; the caller frees its texts. No key anywhere is
 * no error; a profile that was named and does not exist is one. */
int mr_aws_find(struct mr_http_signer *s, struct mr_err *err);

#endif
