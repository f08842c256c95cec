# SPDX-License-Identifier: Apache-2.0
"""Where the kernel cannot divert what the script writes (cli/guard.c says
when), Python refuses it: files that were there before the script began are
not opened for writing, renamed, truncated or removed. What code in C opens by
itself is not seen, but for torch.save()."""
import functools
import os
import stat
import sys
import tempfile

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_TRUNC


class Guard:
    def __init__(self, folder):
        self.folder = folder + os.sep
        self.new = set()

    def path(self, name):
        try:
            return os.path.realpath(os.fsdecode(name))
        except (TypeError, ValueError):
            return None     # a file descriptor

    def is_old(self, path):
        """Was it there before the script began?"""
        if path is None or path in self.new \
                or path.startswith((self.folder, "/dev/", "/proc/")):
            return False
        try:
            return stat.S_ISREG(os.stat(path).st_mode)
        except OSError:
            return False

    def refuse(self, path):
        raise PermissionError(
            1, "was there before, and `millrace diagnose` lets nothing be "
            "overwritten", path)

    def event(self, event, args):
        if event == "open":
            self.opened(*args)
        elif event in ("os.remove", "os.truncate"):
            self.changed(args[0])
        elif event == "os.rename":
            self.changed(args[0])
            self.changed(args[1])
            self.new.add(self.path(args[1]))

    def opened(self, name, _mode, flags):
        if type(flags) is not int or not flags & _WRITES:
            return
        path = self.path(name)
        if self.is_old(path):
            self.refuse(path)
        if path and not os.path.exists(path):
            self.new.add(path)

    def changed(self, name):
        path = self.path(name)
        if self.is_old(path):
            self.refuse(path)

    def saved(self, save):
        """torch.save(), which opens files in C++."""
        @functools.wraps(save)
        def aside(obj, f, *args, **kw):
            if isinstance(f, (str, os.PathLike)):
                path = self.path(f)
                if self.is_old(path):
                    f = tempfile.mktemp(dir=self.folder)
                self.new.add(self.path(f))
            return save(obj, f, *args, **kw)
        return aside

    def begin(self):
        sys.addaudithook(self.event)
