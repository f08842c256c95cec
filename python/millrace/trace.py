# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch's DataLoader does in a part of a program.

    import millrace.trace

    with millrace.trace.record("epoch.mrt"):
        for batch in loader:
            ...

A whole program needs no change: `millrace trace -- python3 train.py`.
Docs: docs/tracing.md.
"""
import contextlib
import errno
import json
import os
import shlex
import shutil
import sys

__all__ = ["record"]

_INJECT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "inject")


def _hooks():
    """The package that Pythons under `millrace trace` have, too."""
    if "millrace_hooks" not in sys.modules:
        sys.path.insert(0, _INJECT)
        try:
            import millrace_hooks  # noqa: F401
        finally:
            sys.path.remove(_INJECT)
    return sys.modules["millrace_hooks"]


@contextlib.contextmanager
def _environment(folder):
    """So that workers that are spawned are followed, too."""
    old = {k: os.environ.get(k) for k in ("PYTHONPATH", "MILLRACE_TRACE")}
    rest = old["PYTHONPATH"]
    os.environ["PYTHONPATH"] = _INJECT + (f":{rest}" if rest else "")
    os.environ["MILLRACE_TRACE"] = folder
    try:
        yield
    finally:
        for k, v in old.items():
            if v is None:
                os.environ.pop(k, None)
            else:
                os.environ[k] = v


def _count(folder, events):
    """Say what the threads are to count, and how; the list of the events."""
    from ._core import trace_events
    plan = trace_events(events)
    if plan is None:
        return []
    with open(os.path.join(folder, "events.json"), "w") as f:
        f.write(plan)
    return json.loads(plan)["events"]


def _merge(folder, path, header, events):
    from millrace_hooks.merge import merge

    from . import __version__
    meta = {"pipeline": shlex.join(sys.orig_argv), "version": __version__,
            "foreign": True, "clock": "monotonic",
            "machine": {"cores": len(os.sched_getaffinity(0)),
                        "kernel": os.uname().release}}
    if events:
        meta["events"] = events
    try:
        found = merge(folder, path, header, meta)
    except OSError as e:    # the program goes on
        print(f"millrace: {path} is not written: {e}", file=sys.stderr)
        return
    if not found:
        print("millrace: no DataLoader was seen: no batch was taken from a "
              "torch.utils.data.DataLoader", file=sys.stderr)


@contextlib.contextmanager
def record(path, events=""):
    """Record into the file `path` what DataLoaders do until the end of the
    block, in this process and in workers that are started in it. Loaders
    must begin an epoch within the block to be seen. `events`: what is counted
    for each step, as `millrace trace --events` has it: names with commas
    between them, "" for all that the machine has, "none". `path` ends in .mrt;
    `millrace trace` reads it, and makes a page of it. Where the program is
    traced already (`millrace trace`), that goes on and nothing is written
    here."""
    path = os.path.abspath(path)
    if not path.endswith(".mrt"):
        raise ValueError(
            f"{path}: what is recorded is an .mrt file; `millrace trace "
            "FILE.mrt -o NAME` makes .html, .json, .csv or .folded of it")
    hooks = _hooks()
    if hooks.following():
        print(f"millrace: this program is being traced; {path} is not "
              f"written", file=sys.stderr)
        yield
        return
    folder, here = path + ".parts", os.getpid()
    try:
        os.mkdir(folder)
    except FileExistsError:
        raise FileExistsError(
            errno.EEXIST, "another trace is being recorded to this file, or "
            f"one was cut off: `millrace trace {folder}` makes a trace of "
            "what is in it; then remove it", folder) from None
    except OSError as e:
        raise type(e)(e.errno, "the trace cannot be written: "
                      + os.strerror(e.errno), path) from None
    try:
        from millrace_hooks.writer import header
        first, counted = header(), _count(folder, events)
        with _environment(folder):
            hooks.follow(folder)
            try:
                yield
            finally:
                hooks.unfollow()
                if os.getpid() == here:
                    _merge(folder, path, first, counted)
    finally:
        # not by a child that was forked within the block, and leaves it
        if os.getpid() == here:
            shutil.rmtree(folder, ignore_errors=True)
