/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (Castagnoli), the checksum of TFRecord, iSCSI and ext4. */
#ifndef MR_KERNEL_CRC32C_H
#define MR_KERNEL_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Of n bytes, by the CPU's own instruction where it has one. */
uint32_t mr_crc32c(const void *p, size_t n);

/* The same in plain C: eight bytes at a time, by tables. */
uint32_t mr_crc32c_plain(const void *p, size_t n);

#endif
