# SPDX-License-Identifier: Apache-2.0
"""The steps within a sample: members of a Compose, and what reads a file.

A data set is looked through for transforms when the first batch is fetched,
in the process that fetches. Objects are timed through their class, so that
the lists that the program made stay as they are; only plain functions in a
list are replaced, by something that behaves and pickles as they do.

Steps do not nest: of transforms that call transforms, the outer one counts,
unless it is a chain (`transforms`), whose members count.

Nothing of the program's is kept: what is known of an object is known by its
id, and forgotten when it is gone.
"""
import functools
import weakref

from . import writer as w
from .own import Function, Method
from .patches import MISSING
from .writer import local

DEEP = 6            # data sets within data sets within ...
MOST_KNOWN = 10000  # objects; a program may make new ones for each sample

_alive = {}         # id of an object -> a weak reference to it
_numbers = {}       # and the step's number
_chains = set()     # ids of those whose members count
_holders = set()    # ids of those with lists in which we have put something
_classes = {}       # class -> its __call__ is timed
_attributes = []    # that stand in classes


def _gone(i, _reference=None):
    _alive.pop(i, None)
    _numbers.pop(i, None)
    _chains.discard(i)
    _holders.discard(i)


def _known(x):
    """Things may be known of it, by its id. False of an object that does not
    say when it is gone (as with __slots__): another may have its id then."""
    i = id(x)
    if i not in _alive:
        if len(_alive) >= MOST_KNOWN:
            return False
        try:
            _alive[i] = weakref.ref(x, functools.partial(_gone, i))
        except TypeError:
            return False
    return True


def forget():
    for i in list(_holders):
        holder = _alive.get(i)
        _put_back(holder and holder())
    for known in (_alive, _numbers, _chains, _holders, _classes, _attributes):
        known.clear()


def _put_back(holder):
    for items in _held(holder).values():
        if not isinstance(items, list):
            continue
        for at, item in enumerate(items):
            if type(item) is Function:
                items[at] = item.__wrapped__


def let_go():
    """A data set is used no more: what it held is not kept for the next."""
    for a in list(_attributes):
        a.made = None, None


class Attribute:
    """Stands in a data set's class for an attribute that holds a function:
    within a sample it is timed, else it is what was put there."""

    def __init__(self, name, step, instead):
        """step: its name, or None for the function's; instead: what the class
        has of that name, or MISSING."""
        self.name, self.step, self.instead = name, step, instead
        self.made = None, None      # for the value that was met last

    def __get__(self, obj, kind=None):
        value = MISSING if obj is None else dict.get(vars(obj), self.name,
                                                     MISSING)
        if value is MISSING:
            return self.inherited(obj, kind)
        if not local.own.open:
            return value
        of, function = self.made
        if of is value and function:
            return function
        if not callable(value) or id(value) in _numbers \
                or id(value) in _chains:
            return value
        step = w.writer.step(self.step or _name(value))
        function = Function(value, step, local)
        self.made = value, function
        return function

    def inherited(self, obj, kind):
        """Of an object that has none of its own."""
        if self.instead is MISSING:
            raise AttributeError(
                f"{kind.__name__!r} object has no attribute {self.name!r}")
        get = getattr(type(self.instead), "__get__", None)
        return get(self.instead, obj, kind) if get else self.instead

    def __set__(self, obj, value):
        vars(obj)[self.name] = value

    def __delete__(self, obj):
        try:
            del vars(obj)[self.name]
        except KeyError:
            raise AttributeError(self.name) from None


def _ask(x, name):
    """For an attribute of the program's object, which may do anything then."""
    try:
        return getattr(x, name, None)
    except Exception:
        return None


def _held(x):
    """What an object holds, by name."""
    try:
        inner = dict(vars(x))
    except Exception:
        return {}
    return {n: v for n, v in inner.items() if isinstance(n, str)}


def _name(x):
    if isinstance(x, functools.partial):
        return _name(x.func)
    for name in "original_name", "__name__":
        name = _ask(x, name)
        if isinstance(name, str) and name.strip("<>"):
            return name.strip("<>")
    return type(x).__name__


def _module(kind):
    name = _ask(kind, "__module__")
    return name if isinstance(name, str) else ""


def members(x):
    """What a chain of transforms consists of, or None."""
    kind = type(x)
    if _module(kind).startswith("torch.nn.") and kind.__name__ in (
            "Sequential", "ModuleList"):
        return list(x)
    own = _held(x)
    inner = own.get("transforms")
    if isinstance(inner, (list, tuple)):
        return inner
    modules = own.get("_modules")
    if isinstance(modules, dict) and "transforms" in modules:
        return list(modules["transforms"])
    return None


def _is_chain(x):
    """All of its members are called, one after the other."""
    name = type(x).__name__
    return (name.endswith("Compose") or name == "Sequential") \
        and members(x) is not None


class Steps:
    """What was found is timed until `patches` are undone."""

    def __init__(self, patches):
        self.patches = patches

    def time_class(self, kind):
        """False where that cannot be done."""
        if kind in _classes:
            return _classes[kind]
        call = getattr(kind, "__call__", None)
        _classes[kind] = False
        if call is None or _module(kind) in ("builtins", "functools"):
            return False

        @w.without("some steps")
        def unknown(obj):
            return w.writer.step(_name(obj))

        try:
            self.patches.set(kind, "__call__", Method(
                call, _numbers, _chains, local, unknown))
        except (AttributeError, TypeError):
            return False
        _classes[kind] = True
        return True

    def member(self, x, name):
        """True: it is timed as a step."""
        if not self.time_class(type(x)):
            return False
        if id(x) not in _numbers and _known(x):
            _numbers[id(x)] = w.writer.step(name)
        return True

    def chain(self, x):
        """The members of this one are steps."""
        if id(x) in _chains or not _known(x):
            return
        _chains.add(id(x))
        self.list(members(x), x)

    def list(self, items, holder):
        count = {}
        for at, item in enumerate(items):
            if item is None or type(item) is Function:
                continue
            if _is_chain(item):
                self.chain(item)
                continue
            name = _name(item)
            count[name] = count.get(name, 0) + 1
            if count[name] > 1:
                name += f" {count[name]}"
            if not self.member(item, name) and isinstance(items, list) \
                    and callable(item) and _known(holder):
                _holders.add(id(holder))
                items[at] = Function(item, w.writer.step(name), local)

    def attribute(self, obj, attribute, name=None):
        """A function that the data set holds."""
        kind = type(obj)
        instead = next((vars(k)[attribute] for k in kind.__mro__
                        if attribute in vars(k)), MISSING)
        if hasattr(type(instead), "__set__"):   # as one of ours has
            return
        new = Attribute(attribute, name, instead)
        try:
            self.patches.set(kind, attribute, new)
            _attributes.append(new)
        except (AttributeError, TypeError):
            pass

    def transform(self, obj, attribute, x, seen):
        """Something that is called transform."""
        if isinstance(x, (list, tuple)):
            self.list(x, obj)
        elif members(x) is not None:
            self.chain(x)
        elif self.holds_transforms(x):
            self.look(x, 1, seen)
        elif callable(x) and not self.member(x, _name(x)):
            self.attribute(obj, attribute)

    @staticmethod
    def holds_transforms(x):
        return any("transform" in n and v is not None
                   for n, v in _held(x).items()) and not callable(
                       _ask(x, "__wrapped__"))

    def look(self, obj, depth=0, seen=None):
        """Look through a data set, and those within it."""
        seen = set() if seen is None else seen
        if id(obj) in seen or depth > DEEP:
            return
        seen.add(id(obj))
        for name, value in _held(obj).items():
            if value is not None and not isinstance(value, (str, bytes, int,
                                                            float)):
                self.found(obj, name, value, depth, seen)

    @w.without("some steps")
    def found(self, obj, name, value, depth, seen):
        """A data set holds this by that name."""
        low = name.lower()
        if low == "loader" and callable(value):
            self.attribute(obj, name, w.READ)
        elif "transform" in low or low.startswith("aug"):
            self.transform(obj, name, value, seen)
        elif low.endswith("datasets") and isinstance(value, (list, tuple)):
            for x in value[:64]:
                self.look(x, depth + 1, seen)
        elif members(value) is not None and callable(value):
            self.chain(value)
        elif hasattr(type(value), "__getitem__") \
                and _ask(value, "__dict__") is not None \
                and not hasattr(type(value), "shape"):
            self.look(value, depth + 1, seen)

    def watch(self, kind):
        """Members of objects of this class are steps, wherever they are."""
        @w.without("some steps")
        def unknown(obj):
            if members(obj) is not None:
                self.chain(obj)

        self.patches.set(kind, "__call__", Method(
            kind.__call__, {}, _chains, local, unknown))
