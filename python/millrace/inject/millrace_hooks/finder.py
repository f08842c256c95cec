# SPDX-License-Identifier: Apache-2.0
"""Says when a module has been imported, and imports nothing itself: a Python
that never touches torch pays for one more finder on sys.meta_path."""
import os
import sys


class Finder:
    """Stands first on sys.meta_path; finds nothing itself. `when`: by the
    name of a module, what to call with it once it has been imported."""

    def __init__(self, when, what):
        self.when, self.what = when, what
        self.waiting = set(when)

    def begin(self):
        sys.meta_path.insert(0, self)
        for name in self.when:
            if name in sys.modules:
                self.waiting.discard(name)
                self.hook(name)

    def end(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def hook(self, name):
        """The module has just been imported."""
        try:
            self.when[name](sys.modules[name])
        except Exception as e:  # another version: the program comes first
            print(f"millrace: {name} is not {self.what}: {e!r}",
                  file=sys.stderr)

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
            self.hook(spec.name)

        try:
            spec.loader.exec_module = exec_module
        except AttributeError:
            pass    # a loader that lets nobody in
        return spec


def reached(folder):
    """Tells the command that a Python was reached."""
    try:
        os.close(os.open(os.path.join(folder, "python"),
                         os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o666))
    except OSError:
        pass
