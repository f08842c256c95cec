#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns a file into a C array that ends with a zero.

usage: embed.py FILE OUT NAME
"""
import sys

with open(sys.argv[1], 'rb') as f:
    data = f.read()
with open(sys.argv[2], 'w', encoding='ascii') as out:
    out.write('/* Made by tools/embed.py. */\n')
    out.write(f'extern const char {sys.argv[3]}[];\n')
    out.write(f'const char {sys.argv[3]}[] = {{\n')
    for i in range(0, len(data), 16):
        # signed: that is what char is
        out.write(''.join(f'{(b + 128) % 256 - 128},'
                          for b in data[i:i + 16]) + '\n')
    out.write('0};\n')
