/* SPDX-License-Identifier: Apache-2.0 */
#include "store/codec.h"

#include <string.h>

const struct mr_codec *mr_codec_find(const char *name)
{
	for (size_t i = 0; mr_codecs[i]; i++)
		if (!strcmp(mr_codecs[i]->name, name))
			return mr_codecs[i];
	return NULL;
}
