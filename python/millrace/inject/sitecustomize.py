# SPDX-License-Identifier: Apache-2.0
"""Found first by Pythons that `millrace trace` starts: waits for
torch.utils.data, then makes room for the sitecustomize that was to be run."""
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


def _follow(here):
    folder = os.environ.get("MILLRACE_TRACE")
    if not folder:
        return
    try:
        if here not in sys.path:
            sys.path.insert(0, here)
        import millrace_hooks
        millrace_hooks.follow(folder)
    except Exception as e:  # the program comes first
        print(f"millrace: process {os.getpid()} is not traced: {e!r}",
              file=sys.stderr)
    # The program finds the path that it would have found.
    sys.path[:] = [p for p in sys.path if p != here]


_here = os.path.dirname(os.path.abspath(__file__))
_follow(_here)
_next_one(_here)
