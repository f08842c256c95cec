# SPDX-License-Identifier: Apache-2.0
"""How many bytes a value holds, for what can be told at a glance."""
import operator

MANY = 64
_bands = {}         # of a picture, by its mode


def _bytes(x):
    return len(x)


def _tensor(x):
    return x.element_size() * x.nelement()


def _array(x):
    return x.nbytes


def _picture(x):
    """Pillow's; four bytes are kept for a pixel of three, not counted."""
    width, height = x.size
    mode = x.mode
    if mode not in _bands:
        _bands[mode] = len(x.getbands())
    return width * height * _bands[mode]


def _several(x):
    if len(x) > MANY:   # of one kind, most likely: looking costs time
        return size(x[0]) * len(x)
    return sum(map(size, x))


def _named(x):
    return sum(map(size, x.values())) if len(x) <= MANY else 0


def _unknown(_x):
    return 0


_known = {bytes: _bytes, bytearray: _bytes, list: _several, tuple: _several,
          dict: _named, int: _unknown, float: _unknown, bool: _unknown,
          type(None): _unknown}


def _by_looks(kind):
    if hasattr(kind, "element_size") and hasattr(kind, "nelement"):
        return _tensor
    if hasattr(kind, "nbytes"):
        return _array
    if hasattr(kind, "getbands"):
        return _picture
    if issubclass(kind, (tuple, list)):
        return _several
    if issubclass(kind, dict):
        return _named
    return _unknown


def size(x):
    kind = type(x)
    try:
        return (_known.get(kind) or _known.setdefault(kind, _by_looks(kind)))(x)
    except Exception:
        return 0


def index(i, none):
    """A sample's number, if that is what i is."""
    try:
        i = operator.index(i)
    except Exception:
        return none
    return i if 0 <= i < none else none
