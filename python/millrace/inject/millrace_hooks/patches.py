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

    def undo(self):
        while self.done:
            owner, name, old = self.done.pop()
            try:
                if old is MISSING:
                    delattr(owner, name)
                else:
                    setattr(owner, name, old)
            except (AttributeError, TypeError):
                pass
