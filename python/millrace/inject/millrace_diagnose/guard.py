# SPDX-License-Identifier: Apache-2.0
"""Where the kernel cannot divert what the script writes (cli/guard.c says
when), Python refuses it: files that were there before the script began are
not opened for writing or truncated, and they and such folders are not renamed
or removed. What code in C opens by itself is not seen, but for torch.save();
nor are programs that are not Python."""
import ctypes
import functools
import os
import stat
import struct
import sys
import tempfile

from .files import libc

_WRITES = os.O_WRONLY | os.O_RDWR | os.O_TRUNC
_NEW = os.O_CREAT | os.O_EXCL

# Audit events: at which arguments there are names, each with the descriptor
# of the folder that it is in. shutil.rmtree() is seen by what it removes, so
# that its ignore_errors is obeyed.
_CHANGE = {"os.remove": ((0, 1),), "os.rmdir": ((0, 1),),
           "os.rename": ((0, 2), (1, 3))}
_MAKE = {"os.mkdir": (0, 2), "os.symlink": (1, 2), "os.rename": (1, 3)}

NOTE = ("the kernel did not help to keep old files as they are (seccomp was "
        "not to be had): Python refused to change them; what libraries write "
        "by themselves in C or C++, and other programs, was not seen")


class Guard:
    """`start`: of the command, in ns since 1970."""

    def __init__(self, folder, start):
        self.folder, self.start = folder + os.sep, start
        self.new = set()    # for file systems that know no times of birth

    def path(self, name, folder=-1):
        """Without links, but for the last part; None: no file's name."""
        try:
            name = os.fsdecode(name)
        except (TypeError, ValueError):
            return None     # a file descriptor
        if name.startswith(("/proc/", "/sys/", "/dev/fd/", "/dev/std")):
            return None
        if folder >= 0 and not name.startswith(os.sep):
            name = f"/proc/self/fd/{folder}/{name}"
        head, tail = os.path.split(name.rstrip(os.sep))
        if tail in ("", ".", ".."):
            return os.path.realpath(name)
        return os.path.join(os.path.realpath(head), tail)

    def target(self, name):
        path = self.path(name)
        return path and os.path.realpath(path)

    def is_old(self, path):
        """Was it there before the script began?"""
        if path is None or path in self.new or path.startswith(self.folder):
            return False
        try:
            st = os.lstat(path)
        except OSError:
            return False
        made, shared = born(path), path.startswith("/dev/")
        if shared and not (stat.S_ISREG(st.st_mode) or stat.S_ISLNK(st.st_mode)
                           or stat.S_ISDIR(st.st_mode)):
            return False    # a device
        if made is None:    # as the kernel's guard has it, cli/divert.c
            return not shared or st.st_ctime_ns < self.start
        return made < self.start

    def refuse(self, path):
        raise PermissionError(
            1, "was there before, and `millrace diagnose` lets nothing be "
            "overwritten", path)

    def event(self, event, args):
        if event == "open":
            self.opened(*args)
        elif event == "os.truncate":
            self.changed(self.target(args[0]))
        for name, folder in _CHANGE.get(event, ()):
            self.changed(self.path(args[name], args[folder]))
        if event in _MAKE:
            name, folder = _MAKE[event]
            self.made(self.path(args[name], args[folder]))

    def opened(self, name, _mode, flags):
        if type(flags) is not int or not flags & _WRITES \
                or flags & _NEW == _NEW:
            return
        path = self.target(name)
        if path is not None and os.path.isfile(path):
            self.changed(path)
        self.made(path)

    def changed(self, path):
        if self.is_old(path):
            self.refuse(path)

    def made(self, path):
        if path is not None and not os.path.lexists(path):
            self.new.add(path)

    def saved(self, save):
        """torch.save(), which opens files in C++."""
        @functools.wraps(save)
        def aside(obj, f, *args, **kw):
            if isinstance(f, (str, os.PathLike)):
                if self.is_old(self.target(f)):
                    f = tempfile.mktemp(dir=self.folder)
                self.made(self.target(f))
            return save(obj, f, *args, **kw)
        return aside

    def begin(self):
        sys.addaudithook(self.event)


_HERE, _NO_LINK, _BTIME = -100, 0x100, 0x800    # of statx()


def born(path):
    """When a file was made, in ns since 1970; None: nobody knows."""
    seen = ctypes.create_string_buffer(256)
    try:
        failed = libc().statx(_HERE, os.fsencode(path), _NO_LINK, _BTIME,
                              seen)
    except AttributeError:
        return None     # the C library has none
    if failed or not struct.unpack_from("=I", seen)[0] & _BTIME:
        return None
    seconds, ns = struct.unpack_from("=qI", seen, 80)
    return seconds * 10**9 + ns
