/* SPDX-License-Identifier: Apache-2.0 */
#include "store/npyhead.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"

size_t mr_npy_head(const struct mr_tensor *t, uint8_t *to)
{
	static const char *const descr[MR_DTYPES] = {
		[MR_U8] = "|u1",  [MR_I16] = "<i2", [MR_I32] = "<i4",
		[MR_I64] = "<i8", [MR_F16] = "<f2", [MR_F32] = "<f4",
		[MR_F64] = "<f8",
	};
	char text[MR_NPY_HEAD];
	size_t n, all;

	n = (size_t)snprintf(text, sizeof(text),
			     "{'descr': '%s', 'fortran_order': False, "
			     "'shape': (",
			     descr[t->dtype]);
	for (int i = 0; i < t->ndim; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%lld,%s",
				      (long long)t->shape[i],
				      i + 1 < t->ndim ? " " : "");
	n += (size_t)snprintf(text + n, sizeof(text) - n, "), }");
	all = mr_round_up(10 + n + 1, 64);
	memcpy(to, "\x93NUMPY\x01\x00", 8);
	to[8] = (uint8_t)(all - 10);
	to[9] = (uint8_t)((all - 10) >> 8);
	memcpy(to + 10, text, n);
	memset(to + 10 + n, ' ', all - 10 - n - 1);
	to[all - 1] = '\n';
	return all;
}
