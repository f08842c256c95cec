/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packers: the last step of a pipeline that is stored. All fields of a sample
 * become the bytes that go into the file.
 */
#ifndef MR_STORE_PACKER_H
#define MR_STORE_PACKER_H

#include "store/record.h"

struct mr_packer {
	const struct mr_op *op; /* whose self this is */
	const struct mr_record_plan *plan;
	/* Of the source, for containers that name their samples. */
	size_t (*key)(const void *self, uint64_t index, char *buf, size_t cap);
	const void *source;
	int file;   /* id of the field that is the sample's file as it is, which
		     * its key names; or -1 */
	bool named; /* fields are called by the extensions that they had */
};

/*
 * Behind each record that mr_pack_record makes stands its seal, which does not
 * go into the file: the checksum, taken while the record is in the cache of
 * the CPU that made it.
 */
enum { MR_RECORD_SEAL = MR_RECORD_ALIGN };

/* The checksum of the record at `record`, whose seal is not part of
 * `length`. */
uint64_t mr_record_sealed(const uint8_t *record, size_t length);

extern const struct mr_op mr_pack_record, mr_pack_tar, mr_pack_tfrecord;

#endif
