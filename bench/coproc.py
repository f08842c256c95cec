# SPDX-License-Identifier: Apache-2.0
"""Peers that live as long as a benchmark: starting one takes up to half a
minute (imports, compilation), so it is started once and measures one slice
whenever its turn in the round comes. See slices.py for its side."""
import json
import os
import select
import signal
import subprocess
import tempfile
import threading
import time

from common import Failed, say

TICK = os.sysconf("SC_CLK_TCK")
IDLE = 0.02         # of a core that a peer may take when it is not its turn


def stat(pid):
    """(parent, CPU seconds) of a process."""
    with open(f"/proc/{pid}/stat", "rb") as f:
        v = f.read().rsplit(b")", 1)[1].split()
    return int(v[1]), (int(v[11]) + int(v[12])) / TICK


def tree(root):
    """pid -> CPU seconds, of a process and all below it."""
    parent, cpu = {}, {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parent[int(name)], cpu[int(name)] = stat(name)
            except (OSError, IndexError):
                pass        # it has ended meanwhile
    below = {root}
    while True:
        more = {p for p, up in parent.items() if up in below} - below
        if not more:
            return {p: cpu[p] for p in below if p in cpu}
        below |= more


def pss_mb(root):
    """Proportional memory of all processes of a tree: what they share is
    counted once."""
    total = 0
    for pid in tree(root):
        try:
            with open(f"/proc/{pid}/smaps_rollup") as f:
                for line in f:
                    if line.startswith("Pss:"):
                        total += int(line.split()[1])
        except OSError:
            pass
    return total / 1024


class Peer:
    """One long-lived process. start() waits until it is ready."""

    def __init__(self, name, cmd, timeout=300, **kw):
        self.name, self.cmd, self.timeout, self.kw = name, cmd, timeout, kw
        self.process = self.errors = None
        self.info, self.first_batch_s, self.busy_idle = {}, None, 0
        self.rested = None

    def start(self):
        say(f"  starting {self.name}")
        self.errors = tempfile.TemporaryFile("w+")
        begin = time.monotonic()
        try:
            self.process = subprocess.Popen(
                list(map(str, self.cmd)), stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=self.errors, text=True,
                start_new_session=True, **self.kw)
        except OSError as e:
            raise Failed(str(e)) from None
        self.info = self.answer()
        self.first_batch_s = self.info["first_batch_at"] - begin
        self.rest()
        return self

    def answer(self):
        out = self.process.stdout
        if not select.select([out], [], [], self.timeout)[0]:
            self.close()
            raise Failed(f"{self.name}: silent for {self.timeout} s")
        line = out.readline()
        if not line:
            self.close()
            self.errors.seek(0)
            said = self.errors.read().strip().splitlines() or ["no message"]
            raise Failed(f"{self.name} ended: {said[-1][:300]}")
        return json.loads(line)

    def cpu(self):
        return sum(tree(self.process.pid).values())

    def rest(self):
        time.sleep(0.05)        # threads that spin before they sleep
        self.rested = time.monotonic(), self.cpu()

    def slice(self, seconds):
        """One measured slice: its numbers, and its CPU seconds."""
        if self.process is None:
            self.start()
        since, cpu = self.rested
        before, now = self.cpu(), time.monotonic()
        if now - since > 1:
            self.busy_idle = max(self.busy_idle, (before - cpu)
                                 / (now - since))
        try:
            self.process.stdin.write(f"{seconds}\n")
            self.process.stdin.flush()
        except OSError:
            pass                # answer() says why
        r = self.answer()
        self.rest()
        r["cpu"] = self.rested[1] - before
        return r

    def peak_pss(self, seconds):
        """The largest proportional memory seen during one more slice, MB;
        looking costs time, so it is not one that counts."""
        if self.process is None:
            self.start()
        peak, done = [pss_mb(self.process.pid)], threading.Event()

        def look():
            while not done.wait(0.05):
                peak.append(pss_mb(self.process.pid))
        t = threading.Thread(target=look)
        t.start()
        try:
            self.slice(seconds)
        finally:
            done.set()
            t.join()
        return max(peak)

    def close(self):
        p = self.process
        if p is None:
            return
        self.process = None
        try:
            p.stdin.close()
        except OSError:
            pass
        try:
            p.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)    # its own session
            p.wait()
        p.stdout.close()
