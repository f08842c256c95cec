# SPDX-License-Identifier: Apache-2.0
"""Attributes that were replaced, and how to put them back."""

MISSING = object()


class Patches:
    def __init__(self):
        self.done = []

    def set(self, owner, name, value):
        """May raise where the owner does not allow it (AttributeError,
        TypeError)."""
        own = vars(owner).get(name, MISSING)
        setattr(owner, name, value)
        self.done.append((owner, name, own))

    def set_item(self, items, at, value):
        self.done.append((items, at, items[at]))
        items[at] = value

    def undo(self):
        while self.done:
            owner, name, old = self.done.pop()
            try:
                if isinstance(name, int):
                    owner[name] = old
                elif old is MISSING:
                    delattr(owner, name)
                else:
                    setattr(owner, name, old)
            except (AttributeError, TypeError, IndexError):
                pass
