# SPDX-License-Identifier: Apache-2.0
"""Follows PyTorch's DataLoader in programs that know nothing of it.

follow() waits until a module that is to be hooked has been imported, and
imports nothing itself: a Python that never touches torch pays for one more
finder on sys.meta_path. docs/tracing.md says what is hooked.
"""
import os
import sys

# What to hook when it has been imported: module -> function of .loader
WHEN = {
    "torch.utils.data": "hook_data",
    "torchvision.transforms.transforms": "hook_compose",
    "torchvision.transforms.v2._container": "hook_compose",
    "albumentations.core.composition": "hook_compose",
    "monai.transforms.compose": "hook_compose",
}


class Finder:
    """Stands first on sys.meta_path; finds nothing itself."""

    def __init__(self):
        self.waiting = set(WHEN)

    def find_spec(self, name, path=None, target=None):
        if name not in self.waiting:
            return None
        self.waiting.discard(name)
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                return self.watched(spec)
        return None

    def watched(self, spec):
        run = getattr(spec.loader, "exec_module", None)

        def exec_module(module):
            try:
                del spec.loader.exec_module
            except AttributeError:
                pass
            run(module)
            hook(spec.name)

        try:
            spec.loader.exec_module = exec_module
        except AttributeError:
            pass    # a loader that lets nobody in
        return spec


_finder = None


def hook(name):
    """The module has just been imported."""
    from . import loader
    try:
        getattr(loader, WHEN[name])(sys.modules[name])
    except Exception as e:  # another version: the program comes first
        print(f"millrace: {name} is not traced: {e!r}", file=sys.stderr)


def follow(folder):
    """Record what this process and those that it forks do into files in
    `folder`. To be called once."""
    global _finder
    try:    # tells the command that a Python was reached
        os.close(os.open(os.path.join(folder, "python"),
                         os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
    except OSError:
        pass
    os.environ["MILLRACE_TRACE"] = os.path.abspath(folder)
    _finder = Finder()
    sys.meta_path.insert(0, _finder)
    for name in WHEN:
        if name in sys.modules:
            _finder.waiting.discard(name)
            hook(name)


def unfollow():
    """Put everything back."""
    global _finder
    if _finder is None:
        return
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    _finder = None
    if __name__ + ".loader" in sys.modules:
        sys.modules[__name__ + ".loader"].unhook()


def following():
    return _finder is not None
