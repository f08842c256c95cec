#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes src/op/unicode_table.h from Python's unicodedata: for each code point
whether it is a letter (L*), a number (N*), White_Space, or none of them.

usage: tools/unicode.py > src/op/unicode_table.h
"""
import sys
import unicodedata

OTHER, LETTER, NUMBER, SPACE = range(4)
BLOCK = 128  # code points, 2 bits each


def kind(code):
    c = chr(code)
    # str.isspace() is White_Space and four separators of ASCII.
    if c.isspace() and not 0x1c <= code <= 0x1f:
        return SPACE
    return {'L': LETTER, 'N': NUMBER}.get(unicodedata.category(c)[0], OTHER)


def block(first):
    kinds = [kind(first + i) for i in range(BLOCK)]
    return bytes(kinds[i] | kinds[i + 1] << 2 | kinds[i + 2] << 4 |
                 kinds[i + 3] << 6 for i in range(0, BLOCK, 4))


def rows(values):
    line = ''
    for v in values:
        word = f'{v},'
        if len(line) + len(word) > 72:
            yield '\t' + line
            line = ''
        line += word
    yield '\t' + line


def main():
    blocks, index = {}, []
    for first in range(0, 0x110000, BLOCK):
        index.append(blocks.setdefault(block(first), len(blocks)))
    # The planes behind the last block in use are all like it.
    while len(index) > 1 and index[-1] == index[-2]:
        index.pop()
    assert len(blocks) <= 256
    print(f'''/* SPDX-License-Identifier: Apache-2.0 */
/* Made by tools/unicode.py from Unicode {unicodedata.unidata_version}. */
/* clang-format off */
enum {{ UNICODE_BLOCK = {BLOCK} }};

/* Which block each {BLOCK} code points have; behind the end, the last one. */
static const uint8_t unicode_index[{len(index)}] = {{''')
    print('\n'.join(rows(index)))
    print('};\n\n/* Two bits for each code point, low ones first. */')
    print(f'static const uint8_t unicode_blocks[{len(blocks)}]'
          f'[UNICODE_BLOCK / 4] = {{')
    for b in blocks:
        text = list(rows(b))
        print('\t{\n' + '\n'.join(text) + '\n\t},')
    print('};\n/* clang-format on */')


sys.exit(main())
