/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3, of the widest registers that this CPU has: of what is in the cache
 * three times as fast as what a library for every x86-64 takes by itself. */
#ifndef MR_CORE_HASH_H
#define MR_CORE_HASH_H

#ifdef MR_XXH_DISPATCH
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>
#endif

#endif
