/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of libjpeg's "islow" DCT, for jpeg.c and jpeg_avx2.c. */
#ifndef MR_KERNEL_JPEG_IDCT_H
#define MR_KERNEL_JPEG_IDCT_H

enum {
	CONST_BITS = 13, /* of the factors, after the point */
	PASS1_BITS = 2,	 /* of what the first pass leaves */
	PASS1_SHIFT = CONST_BITS - PASS1_BITS,
	PASS2_SHIFT = CONST_BITS + PASS1_BITS + 3,
	/* x 2^CONST_BITS */
	F_0_298 = 2446,
	F_0_390 = 3196,
	F_0_541 = 4433,
	F_0_765 = 6270,
	F_0_899 = 7373,
	F_1_175 = 9633,
	F_1_501 = 12299,
	F_1_847 = 15137,
	F_1_961 = 16069,
	F_2_053 = 16819,
	F_2_562 = 20995,
	F_3_072 = 25172
};

#endif
