# SPDX-License-Identifier: Apache-2.0
"""Found first by Pythons that `millrace trace` and `millrace diagnose` start:
waits for torch.utils.data, then makes room for the sitecustomize that was to
be run."""
import os
import sys


def _next_one(here):
    """Run the sitecustomize that this one stands before."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec
    rest = [p for p in sys.path if os.path.abspath(p or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


def _trace(folder):
    import millrace_hooks
    millrace_hooks.follow(folder)


def _diagnose(folder):
    import millrace_diagnose
    millrace_diagnose.begin(folder)


def _enter(here):
    for name, enter, what in (("MILLRACE_TRACE", _trace, "traced"),
                              ("MILLRACE_DIAGNOSE", _diagnose, "diagnosed")):
        folder = os.environ.get(name)
        if not folder:
            continue
        try:
            if here not in sys.path:
                sys.path.insert(0, here)
            enter(folder)
        except Exception as e:  # the program comes first
            print(f"millrace: process {os.getpid()} is not {what}: {e!r}",
                  file=sys.stderr)
        # The program finds the path that it would have found.
        sys.path[:] = [p for p in sys.path if p != here]


_here = os.path.dirname(os.path.abspath(__file__))
_enter(_here)
_next_one(_here)
