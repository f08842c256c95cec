/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a .npy file for a tensor. */
#ifndef MR_STORE_NPYHEAD_H
#define MR_STORE_NPYHEAD_H

#include "millrace/millrace.h"

enum { MR_NPY_HEAD = 384 }; /* bytes at most */

/* Writes it; returns its bytes, a multiple of 64. */
size_t mr_npy_head(const struct mr_tensor *t, uint8_t *to);

#endif
