#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks who includes whom, by the table of docs/design.md.

usage: layers.py [ROOT]; prints the offending lines, exits 1 if there are any.
"""
import os
import re
import sys

MAY = {
    'core': [],
    'kernel': ['core'],
    'trace': ['core'],
    'io': ['core', 'trace'],
    'store': ['core', 'kernel', 'trace', 'io'],
    'probe': ['core', 'kernel', 'trace', 'io', 'store'],
    'dist': ['core', 'trace'],
    'cache': ['core', 'trace', 'dist'],
    'op': ['core', 'kernel'],
    'source': ['core', 'kernel', 'trace', 'io', 'store'],
    'stream': ['core', 'trace', 'dist'],
    'pipe': ['core', 'kernel', 'trace', 'io', 'store', 'dist', 'cache', 'op',
             'source', 'stream'],
    'serve': ['core', 'kernel', 'trace', 'io', 'store', 'dist', 'cache', 'op',
              'source', 'stream', 'pipe'],
    'analyze': ['core', 'trace'],
    'diagnose': ['core', 'kernel', 'trace', 'io', 'store', 'cache', 'op',
                 'source', 'pipe', 'analyze'],
    'tune': ['core', 'trace', 'io', 'store', 'cache', 'op', 'source', 'pipe',
             'analyze', 'diagnose'],
    'report': ['core', 'trace', 'analyze'],
    'cli': ['core', 'trace'],
    'python': [],
    'bench': ['core', 'kernel', 'store'],
    'examples': [],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')


def layer_of(path):
    parts = path.split(os.sep)
    return parts[1] if parts[0] == 'src' else parts[0]


def offences(root):
    for top in ('src', 'cli', 'python', 'bench', 'examples'):
        for folder, _, names in sorted(os.walk(os.path.join(root, top))):
            for name in sorted(names):
                if name.endswith(('.c', '.h')):
                    path = os.path.relpath(os.path.join(folder, name), root)
                    yield from check(root, path)


def check(root, path):
    layer = layer_of(path)
    with open(os.path.join(root, path), encoding='utf-8') as f:
        for number, line in enumerate(f, 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            target = found.group(1).split('/')[0]
            if target == 'millrace' or target == layer or target not in MAY:
                continue
            if target not in MAY[layer]:
                yield (f'{path}:{number}: {layer} may not include '
                       f'{found.group(1)}')


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else '.'
    found = list(offences(root))
    for line in found:
        print(line)
    sys.exit(1 if found else 0)


main()
