# SPDX-License-Identifier: Apache-2.0
"""Follows PyTorch's DataLoader in programs that know nothing of it.

follow() waits until a module that is to be hooked has been imported.
docs/tracing.md says what is hooked.
"""
import os
import sys

from .finder import Finder, reached


def _later(name):
    """A function of .loader, which is imported when it is called."""
    def call(module):
        from . import loader
        getattr(loader, name)(module)
    return call


WHEN = {
    "torch.utils.data": _later("hook_data"),
    "torchdata.stateful_dataloader.stateful_dataloader":
        _later("hook_stateful"),
    "torchvision.transforms.transforms": _later("hook_compose"),
    "torchvision.transforms.v2._container": _later("hook_compose"),
    "albumentations.core.composition": _later("hook_compose"),
    "monai.transforms.compose": _later("hook_compose"),
}

_finder = None


def follow(folder):
    """Record what this process and those that it forks do into files in
    `folder`. To be called once."""
    global _finder
    reached(folder)
    os.environ["MILLRACE_TRACE"] = os.path.abspath(folder)
    _finder = Finder(WHEN, "traced")
    _finder.begin()


def unfollow():
    """Put everything back."""
    global _finder
    if _finder is None:
        return
    _finder.end()
    _finder = None
    if __name__ + ".loader" in sys.modules:
        sys.modules[__name__ + ".loader"].unhook()


def following():
    return _finder is not None
