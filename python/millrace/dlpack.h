/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of DLPack's ABI (version 0.8, unversioned capsules) that a
 * producer on the CPU needs. Names and layout are the standard's:
 * https://dmlc.github.io/dlpack/latest/
 */
#ifndef MRPY_DLPACK_H
#define MRPY_DLPACK_H

#include <stdint.h>

enum { DL_CPU = 1 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2 };

struct dl_device {
	int32_t type;
	int32_t id;
};

struct dl_dtype {
	uint8_t code;
	uint8_t bits;
	uint16_t lanes;
};

struct dl_tensor {
	void *data;
	struct dl_device device;
	int32_t ndim;
	struct dl_dtype dtype;
	int64_t *shape;
	int64_t *strides; /* in elements */
	uint64_t byte_offset;
};

/* The consumer calls deleter() once, from any thread, with or without the
 * GIL. */
struct dl_managed {
	struct dl_tensor tensor;
	void *context;
	void (*deleter)(struct dl_managed *self);
};

#endif
