# SPDX-License-Identifier: Apache-2.0
"""Measures, inside of a PyTorch script that knows nothing of it, how fast its
loop is when data is ready, when only preparation is needed, and when the
storage is needed as well. docs/diagnosing-scripts.md.

begin() waits until torch.utils.data has been imported; from then on the first
DataLoader that a loop goes over is fed by phases.py.
"""
import os
import sys

from millrace_hooks.finder import Finder, reached

# The kernel does not help: when the command began, in ns since 1970
GUARD = "MILLRACE_DIAGNOSE_GUARD"
OPTIONS = "MILLRACE_DIAGNOSE_OPTIONS"   # "seconds keep loader"


def begin(folder):
    reached(folder)
    guard = None
    if os.environ.get(GUARD):
        from .guard import Guard
        guard = Guard(folder, int(os.environ[GUARD]))
        guard.begin()

    def hook_data(_module):
        from . import script
        script.hook(folder, os.environ.get(OPTIONS, ""), guard is not None)

    def hook_save(module):
        if guard is not None:
            module.save = guard.saved(module.save)
            sys.modules["torch"].save = module.save

    Finder({"torch.utils.data": hook_data, "torch.serialization": hook_save},
           "diagnosed").begin()
