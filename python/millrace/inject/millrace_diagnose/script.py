# SPDX-License-Identifier: Apache-2.0
"""The way into a script: which loader is measured, what its loop gets, and
how the script ends."""
import atexit
import functools
import os
import sys
import time
import traceback
import types

from . import ranks
from .backward import Backward
from .feed import Broken, Over
from .guard import NOTE
from .phases import Phases
from .result import Result
from .source import Dice
from .watch import MAIN, Notes, watched_fetch

TINY = 4            # samples; a loop over fewer is not the training
LEFT = 5            # seconds that the first rank waits for the others


class Options:
    def __init__(self, text):
        part = text.split()
        try:
            self.seconds = min(max(float(part[0]), 3), 3600)
            self.keep = part[1] == "1"
            self.loader = max(1, int(part[2]))
        except (IndexError, ValueError):
            self.seconds, self.keep, self.loader = 60.0, False, 1


class Front:
    """What the script iterates over."""

    def __init__(self, driver):
        self.driver, self.real = driver, None

    def __iter__(self):
        return self

    def __next__(self):
        if self.real is None:
            return self.driver.request(self)
        return next(self.real)

    def __len__(self):
        return len(self.driver.loader)

    def __getattr__(self, name):
        real = self.__dict__.get("real")
        if real is None:
            raise AttributeError(name)
        return getattr(real, name)


class Driver:
    """One loader's measurement."""

    def __init__(self, script, loader):
        self.script, self.loader = script, loader
        self.phases = self.result = self.run = self.dice = None
        self.last = None        # front that asked last
        self.said = False

    def begin(self):
        from millrace_hooks.writer import rank
        os.environ[MAIN] = str(os.getpid())
        me, all_ = rank()
        s = self.script
        self.result = Result(s.folder, me, all_, self.loader)
        self.dice = Dice(self.loader)
        s.meetings += 1
        by, remark = ranks.meet(s.folder, me, all_, meeting=s.meetings)
        if remark:
            self.result.note(remark)
        self.phases = Phases(self.loader, s.make, s.options.seconds, by,
                             Notes(s.folder, os.getpid()), self.result,
                             s.backward)
        self.run = self.phases.run()
        return next(self.run)

    def request(self, front):
        """The loop asks for a batch."""
        if self.script.done:
            return self.after(front)
        new, self.last = front is not self.last, front
        try:
            return self.begin() if self.run is None else self.run.send(new)
        except StopIteration:
            self.result.known["done"] = True
        except Broken as e:
            self.failed(f"the data set failed: {_named(e.__cause__)}")
            _hide_our_frames()
            raise e.__cause__ from None
        except (Over, ranks.Lost) as e:
            self.failed(str(e))
        except Exception as e:
            self.failed(f"the diagnosis failed: {_named(e)}")
            if os.environ.get("MILLRACE_DEBUG"):
                traceback.print_exc()
        return self.after(front)

    def failed(self, why):
        if self.result is None:
            print(f"millrace: {why}", file=sys.stderr)
        else:
            self.result.note(why)
        self.close()

    def after(self, front):
        """It was measured as far as can be."""
        self.close()
        if not self.script.options.keep:
            self.script.leave(self)
        if self.dice is not None:
            self.dice.restore()
        front.real = self.phases.source.whole() if self.phases \
            else self.script.make(self.loader)
        return next(front.real)

    def close(self):
        """Write down what is known, and stop the workers."""
        if self.said:
            return
        self.said = self.script.done = True
        if self.phases is not None:
            self.phases.notes.end()
            self.phases.source.close(True)
        if self.result is not None:
            if self.script.weakly:
                self.result.note(NOTE)
            if not self.script.backward.called:
                self.result.note(
                    "the loop that was measured called no backward(): if it "
                    "is not the training, choose another loader with "
                    "--which-loader N")
            self.result.write()


class Script:
    def __init__(self, folder, options, weakly):
        self.folder, self.options, self.weakly = folder, options, weakly
        self.pid = os.getpid()
        self.make = None        # DataLoader.__iter__ as it was
        self.driver = None
        self.loaders = 0        # that were met
        self.meetings = 0       # with the other ranks
        self.done = False
        self.backward = Backward()
        self.tiny = None

    def driver_of(self, loader):
        """Who feeds a loop over this loader; None: the loader itself."""
        if self.pid != os.getpid():     # a child that trains by itself
            make, backward = self.make, self.backward
            self.__init__(self.folder, self.options, self.weakly)
            self.make, self.backward = make, backward
        if self.done or _is_worker():
            return None
        d = self.driver
        if d is not None and (d.loader is loader
                              or d.loader.dataset is loader.dataset):
            return d
        if d is not None and (d.phases and d.phases.phase != "g"):
            return None
        if not self.chosen(loader):
            return None
        if d is not None and d.phases is not None:
            d.phases.source.close(True)
        self.driver = Driver(self, loader)
        return self.driver

    def chosen(self, loader):
        # on the loader itself: another may have the id of one that is gone
        number = vars(loader).setdefault("_millrace_number", self.loaders + 1)
        self.loaders = max(self.loaders, number)
        if number < self.options.loader:
            return False
        try:
            n = len(loader.dataset)
        except Exception:
            return True
        if n < TINY:
            self.tiny = f"{type(loader.dataset).__name__} of {n} sample" \
                + "s" * (n != 1)
        return n >= TINY

    # ---- the end ----

    def ended(self):
        """The script has come to its end by itself."""
        if self.pid != os.getpid() or self.done:
            return
        d = self.driver
        if d is None or d.result is None:
            if self.tiny:
                self.say("tiny", self.tiny)
            return
        d.result.note(
            "the script's loop ended before all was measured: give it more "
            "batches or epochs, or the diagnosis fewer --seconds")
        d.close()

    def say(self, name, text):
        with open(os.path.join(self.folder, name), "w") as f:
            f.write(text)

    def leave(self, driver):
        """End the process, and nothing else: what stands behind the loop
        in the script is not run."""
        by = driver.phases.ranks if driver.phases else ranks.Alone()
        ok = bool(driver.result and driver.result.known.get("done"))
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:
                pass
        try:
            if ok:
                self.last_one(by)
            _stop_children()
        except Exception:
            pass
        os._exit(0 if ok else 1)

    def last_one(self, by):
        """The first rank may hold what the others need to the end."""
        self.say(f"left.{by.rank}", "")
        if by.rank == 0 and by.ranks > 1:
            until = time.monotonic() + LEFT
            while time.monotonic() < until and not all(
                    os.path.exists(os.path.join(self.folder, f"left.{r}"))
                    for r in range(by.ranks)):
                time.sleep(0.01)
            time.sleep(0.2)


def _named(e):
    text = str(e).strip().splitlines()
    return type(e).__name__ + (f": {text[-1]}" if text else "")


def _hide_our_frames():
    """If nobody catches it, the traceback is the script's."""
    show, here = sys.excepthook, os.path.dirname(__file__) + os.sep

    def others(kind, e, tb):
        first = at = types.SimpleNamespace(tb_next=tb)
        while at.tb_next is not None:
            if at.tb_next.tb_frame.f_code.co_filename.startswith(here):
                at.tb_next = at.tb_next.tb_next
            else:
                at = at.tb_next
        show(kind, e.with_traceback(first.tb_next), first.tb_next)

    sys.excepthook = others


def _is_worker():
    info = sys.modules["torch.utils.data"].get_worker_info
    return info() is not None


def _stop_children():
    module = sys.modules.get("multiprocessing")
    if module is None:
        return
    children = module.active_children()
    for c in children:
        c.terminate()
    for c in children:
        c.join(1)
        if c.is_alive():
            c.kill()


def hook(folder, options, weakly=False):
    """torch.utils.data is there. `weakly`: Python guards the files."""
    dataloader = sys.modules["torch.utils.data.dataloader"]
    kind = dataloader.DataLoader
    script = Script(folder, Options(options), weakly)
    make = script.make = kind.__iter__

    @functools.wraps(make)
    def iterate(self):
        driver = script.driver_of(self)
        return make(self) if driver is None else Front(driver)

    kind.__iter__ = iterate
    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        fetcher = getattr(dataloader._utils.fetch, name)
        fetcher.fetch = watched_fetch(fetcher.fetch, folder)
    script.backward.watch()
    atexit.register(script.ended)
