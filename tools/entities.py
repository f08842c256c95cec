#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes src/op/htmlentity_table.h from Python's list of HTML's character
references.

usage: tools/entities.py > src/op/htmlentity_table.h
"""
import html.entities
import sys


def quoted(data):
    return ''.join(f'\\{b:03o}' if b < 32 or b > 126 or b in b'"\\?'
                   else chr(b) for b in data)


def main():
    names = {}
    for name, text in html.entities.html5.items():
        bare = name.rstrip(';')
        old = names.get(bare, (text, False))[1]
        names[bare] = (text, old or not name.endswith(';'))
    print('''/* SPDX-License-Identifier: Apache-2.0 */
/* Made by tools/entities.py from the list of the HTML standard. */
/* clang-format off */''')
    print(f'enum {{ ENTITIES = {len(names)}, ENTITY_LONGEST = '
          f'{max(map(len, names))} }};\n')
    print('/* Of each: its name, a zero, 1 when it needs no semicolon or 2,')
    print(' * its characters, a zero. In the order of the names. */')
    print('static const char entities[] =')
    places, at = [], 0
    for name in sorted(names):
        text, old = names[name]
        data = (name.encode() + b'\0' + (b'\1' if old else b'\2') +
                text.encode() + b'\0')
        places.append(at)
        at += len(data)
        print(f'"{quoted(data)}"')
    print(';\n')
    assert at < 65536
    print('static const uint16_t entity_at[ENTITIES] = {')
    for i in range(0, len(places), 10):
        print('\t' + ' '.join(f'{p},' for p in places[i:i + 10]))
    print('};\n/* clang-format on */')


sys.exit(main())
