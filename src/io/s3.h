/* SPDX-License-Identifier: Apache-2.0 */
/* s3://bucket/key: which server, which keys, and lists of a bucket. */
#ifndef MR_IO_S3_H
#define MR_IO_S3_H

#include "io/brace.h"
#include "io/http.h"

/*
 * Region and keys, as the AWS tools find them: AWS_REGION and the like,
 * AWS_ACCESS_KEY_ID and the like, else the files in ~/.aws, of the profile
 * AWS_PROFILE. fini() also for one that was only zeroed.
 */
int mr_s3_signer_init(struct mr_http_signer *s, struct mr_err *err);
void mr_s3_signer_fini(struct mr_http_signer *s);

/* Where the object lies, to be freed by the caller: at AWS_ENDPOINT_URL_S3
 * or AWS_ENDPOINT_URL, else at Amazon. */
int mr_s3_locate(const char *name, const struct mr_http_signer *s, char **url,
		 struct mr_err *err);

/* Append the objects that s3://bucket/pattern names, in the order of their
 * bytes. */
int mr_s3_list(struct mr_name_list *l, const char *pattern, struct mr_err *err);

#endif
