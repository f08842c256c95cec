#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns lists of files into C tables: src/op/any/cast.c holds mr_op_cast.

usage: registry.py steps OUT SOURCES... -- CODECS... -- STEPS... -- MISSING...
       registry.py commands OUT COMMANDS...

A file without its symbol fails to link. MISSING are sources that this build
lacks, as NAME=WHY.
"""
import os
import sys


def names(files):
    return sorted(os.path.splitext(os.path.basename(f))[0] for f in files)


def table(kind, prefix, members):
    lines = [f'extern const struct {kind} {prefix}_{n};' for n in members]
    lines += ['', f'const struct {kind} *const {prefix}s[] = {{']
    return lines + [f'\t&{prefix}_{n},' for n in members] + ['\tNULL', '};', '']


def steps(sources, codecs, ops, missing):
    lines = ['/* Made by tools/registry.py from the list of files. */',
             '#include "op/op.h"', '#include "source/source.h"',
             '#include "store/codec.h"', '']
    lines += table('mr_source', 'mr_source', sources)
    lines += table('mr_codec', 'mr_codec', codecs)
    lines += table('mr_op', 'mr_op', ops)
    lines += ['const struct mr_missing mr_missing_sources[] = {']
    lines += ['\t{ "%s", "%s" },' % tuple(m.split('=', 1)) for m in missing]
    return lines + ['\t{ NULL, NULL }', '};', '']


def commands(cmds):
    lines = ['/* Made by tools/registry.py from the list of files. */',
             '#include "cli.h"', '']
    lines += [f'extern const struct cli_command cli_command_{n};' for n in cmds]
    lines += ['', 'const struct cli_command *const cli_commands[] = {']
    lines += [f'\t&cli_command_{n},' for n in cmds] + ['\tNULL', '};', '']
    return lines


def main():
    kind, out, files = sys.argv[1], sys.argv[2], sys.argv[3:]
    if kind == 'steps':
        lists = [[]]
        for f in files:
            lists[-1].append(f) if f != '--' else lists.append([])
        lines = steps(*map(names, lists[:3]), lists[3])
    else:
        lines = commands(names(files))
    with open(out, 'w') as f:
        f.write('\n'.join(lines))


main()
