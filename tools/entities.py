#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes src/op/htmlentity_table.h from Python's list of HTML's character
references.

usage: tools/entities.py > src/op/htmlentity_table.h
"""
import html.entities
import sys


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
    places, table = [], b''
    for name in sorted(names):
        text, old = names[name]
        places.append(len(table))
        table += (name.encode() + b'\0' + (b'\1' if old else b'\2') +
                  text.encode() + b'\0')
    assert len(table) < 65536
    print(f'static const uint8_t entities[{len(table)}] = {{')
    print('\n'.join(rows(table)))
    print('};\n\nstatic const uint16_t entity_at[ENTITIES] = {')
    print('\n'.join(rows(places)))
    print('};\n/* clang-format on */')


sys.exit(main())
