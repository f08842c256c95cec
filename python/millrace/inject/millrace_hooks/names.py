# SPDX-License-Identifier: Apache-2.0
"""What a sample is called: the path that its data set has for it."""
import bisect
import os
import struct

SLOWEST = 10        # samples of a thread that are named
LISTS = ("samples", "imgs", "images", "files", "paths", "filenames",
         "image_paths", "img_paths", "image_files", "img_files", "file_list",
         "data")
_head = struct.Struct("<QQ").pack


def path_in(x):
    """Of an entry of such a list: a path, or something that holds one."""
    if isinstance(x, dict):
        x = tuple(x.values())
    if isinstance(x, (tuple, list)):
        x = next((v for v in x if isinstance(v, (str, os.PathLike))), None)
    return os.fsencode(x) if isinstance(x, (str, os.PathLike)) else None


def name_of(dataset, i):
    """None when it has no list with one entry for each sample."""
    while type(dataset).__name__ == "Subset" \
            and type(dataset).__module__.startswith("torch."):
        dataset, i = dataset.dataset, dataset.indices[i]
    own = getattr(dataset, "__dict__", {})
    for name in LISTS:
        many = own.get(name)
        if isinstance(many, (list, tuple)) and len(many) == len(dataset):
            path = path_in(many[i])
            if path:
                return path[:4095]
    return None


class Slow:
    """A thread's slowest samples so far, with their names. Each that is
    slower than all but a few before is named at once: there are not many,
    and nobody knows when the process ends."""

    __slots__ = ("times", "least", "keys")

    def __init__(self):
        self.times = []
        self.least = -1     # ns that a sample must take longer than
        self.keys = b""     # that are not yet written

    def note(self, ns, number, dataset, i):
        bisect.insort(self.times, ns)
        if len(self.times) > SLOWEST:
            del self.times[0]
            self.least = self.times[0]
        try:
            name = name_of(dataset, i)
        except Exception:       # the program's own code; it comes first
            return
        if name:
            self.keys += _head(number | len(name) << 48, ns) + name
