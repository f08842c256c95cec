#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a file into a C array that ends with a zero.

A line `//include NAME` in it stands for the file of that name beside it, or
in one of the folders.

usage: embed.py FILE OUT NAME [FOLDER...]
"""
import pathlib
import re
import sys

INCLUDE = re.compile(rb'^//include (\S+)\n', re.M)


def whole(path, folders):
    def included(found):
        name = found[1].decode()
        for folder in (path.parent, *folders):
            if (folder / name).is_file():
                return whole(folder / name, folders).rstrip() + b'\n'
        sys.exit(f'{path}: includes {name}, which is neither beside it nor in '
                 + (', '.join(map(str, folders)) or 'a given folder'))
    return INCLUDE.sub(included, path.read_bytes())


data = whole(pathlib.Path(sys.argv[1]), [*map(pathlib.Path, sys.argv[4:])])
with open(sys.argv[2], 'w', encoding='ascii') as out:
    out.write('/* Made by tools/embed.py. */\n')
    out.write(f'extern const char {sys.argv[3]}[];\n')
    out.write(f'const char {sys.argv[3]}[] = {{\n')
    for i in range(0, len(data), 16):
        # signed: that is what char is
        out.write(''.join(f'{(b + 128) % 256 - 128},'
                          for b in data[i:i + 16]) + '\n')
    out.write('0};\n')
