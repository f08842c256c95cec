#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turns lists of files into C tables: src/op/any/cast.c holds mr_op_cast.

usage: registry.py steps OUT SOURCES... -- STEPS...
       registry.py commands OUT COMMANDS...

A file without its symbol fails to link.
"""
import os
import sys


def names(files):
    return sorted(os.path.splitext(os.path.basename(f))[0] for f in files)


def steps(sources, ops):
    lines = ['/* Made by tools/registry.py from the list of files. */',
             '#include "op/op.h"', '#include "source/source.h"', '']
    lines += [f'extern const struct mr_source mr_source_{n};' for n in sources]
    lines += [f'extern const struct mr_op mr_op_{n};' for n in ops]
    lines += ['', 'const struct mr_source *const mr_sources[] = {']
    lines += [f'\t&mr_source_{n},' for n in sources] + ['\tNULL', '};']
    lines += ['', 'const struct mr_op *const mr_ops[] = {']
    lines += [f'\t&mr_op_{n},' for n in ops] + ['\tNULL', '};', '']
    return lines


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
        cut = files.index('--')
        lines = steps(names(files[:cut]), names(files[cut + 1:]))
    else:
        lines = commands(names(files))
    with open(out, 'w') as f:
        f.write('\n'.join(lines))


main()
