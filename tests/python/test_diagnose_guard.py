# SPDX-License-Identifier: Apache-2.0
"""What a script that is diagnosed writes: no file that was there before is
changed."""
import pathlib
import shutil
import sqlite3
import tempfile

import pytest
from scripts import finish, folder, needed, run, start  # noqa: F401

pytestmark = needed


@pytest.fixture
def shm():
    """A folder in shared memory, which is a file system of its own."""
    path = tempfile.mkdtemp(dir="/dev/shm")
    yield pathlib.Path(path)
    shutil.rmtree(path)


def run_plain(*args, **kw):
    """A script that has no loop: nothing is measured, and it is over
    soon."""
    r = run(*args, code=1, options=(), **kw)
    assert "Error" not in r.err, r.err
    return r


WRITES = """
from common import *
import shutil

if __name__ == "__main__":
    with open("log", "a") as f:
        f.write("begun")
    shutil.rmtree("runs")
    os.mkdir("runs")
    model = torch.nn.Linear(8, 1)
    for x, i in DataLoader(Numbers(400), 4):
        time.sleep(0.002)
        model(x).sum().backward()
        if i[0] % 40:
            continue
        torch.save(model.state_dict(), "model.pt")
        torch.save(model.state_dict(), "best.tmp")
        os.replace("best.tmp", "best.pt")
        with open("scores", "w") as f:
            f.write("new")
        with open("both", "r+") as f:
            assert f.read() in ("old", "newer")
            f.seek(0)
            f.write("newer")
        os.truncate("cut", 0)
        torch.save(model.state_dict(), "fresh.pt")
        torch.load("fresh.pt")
    open("behind the loop", "w")
"""
OLD = ["log", "model.pt", "best.pt", "scores", "both", "cut", "runs/one"]


def test_no_file_that_was_there_is_changed(folder):
    (folder / "runs").mkdir()
    for name in OLD:
        (folder / name).write_text("old")
    r = run(folder, WRITES, seconds=3, options=())
    assert [(folder / name).read_text() for name in OLD] == ["old"] * len(OLD)
    assert not (folder / "behind the loop").exists()
    assert "meant to change" in r.err and "model.pt" in r.err
    assert (folder / "fresh.pt").exists()
    assert not [p for p in folder.iterdir() if "millrace-" in p.name]


def test_what_is_opened_to_be_changed_is_copied_to_any_file_system(folder,
                                                                   shm):
    for name in ("both", "log", "raw"):
        (folder / name).write_text("old")
    (folder / "large").write_bytes(bytes(range(250)) * 1000)
    r = run_plain(folder, """
    import os

    with open("both", "r+") as f:
        assert f.read() == "old"
        f.write("new")
    with open("log", "a+") as f:
        f.write("more")
        f.seek(0)
        assert f.read() == "oldmore"
    with open("large", "r+b") as f:
        assert f.read() == bytes(range(250)) * 1000
    assert os.read(os.open("raw", os.O_RDWR), 9) == b"old"
    print("all")
    """, env={"TMPDIR": str(shm)})
    assert r.out == "all\n"
    for name in ("both", "log", "raw"):
        assert (folder / name).read_text() == "old"
    assert not list(shm.iterdir())


def test_who_writes_first_and_reads_later_finds_what_was_there(folder):
    for name in ("log", "part", "cut"):
        (folder / name).write_text("old contents")
    r = run_plain(folder, """
    import os

    with open("log", "a") as f:
        f.write("+")
    with open("log", "r+") as f:
        print(f.read())
    fd = os.open("part", os.O_WRONLY)
    os.write(fd, b"new")
    with open("part", "r+") as f:
        print(f.read())
    with open("cut", "w") as f:
        f.write("short")
    with open("cut", "a+") as f:
        f.seek(0)
        print(f.read())
    """)
    assert r.out == "old contents+\nnew contents\nshort\n"
    for name in ("log", "part", "cut"):
        assert (folder / name).read_text() == "old contents"


def test_of_files_too_large_to_be_copied_only_the_end_can_be_written(folder):
    (folder / "log").touch()
    with open(folder / "log", "r+b") as f:
        f.truncate((1 << 30) + 1)
    r = run_plain(folder, """
    import os

    with open("log", "a") as f:
        print(f.tell())
        f.write("+")
    try:
        open("log", "r+")
    except OSError as e:
        print(e.strerror)
    with open("log", "w") as f:
        f.write("short")
    with open("log", "r+") as f:
        print(f.read())
    """)
    assert r.out == f"{(1 << 30) + 1}\nRead-only file system\nshort\n"
    assert (folder / "log").stat().st_size == (1 << 30) + 1


def test_a_data_base_can_be_read_and_not_be_written(folder):
    with sqlite3.connect(folder / "db") as db:
        db.execute("create table t (x)")
        db.execute("insert into t values (7)")
    db.close()
    before = (folder / "db").read_bytes()
    r = run_plain(folder, """
    import sqlite3

    db = sqlite3.connect("db")
    print(db.execute("select x from t").fetchall())
    try:
        db.execute("insert into t values (8)")
    except sqlite3.OperationalError as e:
        print(e)
    """)
    assert r.out == "[(7,)]\nattempt to write a readonly database\n"
    assert (folder / "db").read_bytes() == before


def test_files_in_shared_memory_stay_as_they_are(folder, shm):
    (shm / "sub").mkdir()
    (shm / "link").symlink_to("part")
    for name in ("part", "sub/one", "gone"):
        (shm / name).write_text("old")
    r = run_plain(folder, f"""
    import os, shutil
    os.chdir({str(shm)!r})
    """ + """
    for name in ("part", "new"):
        with open(name, "a+") as f:
            f.write("+")
            f.seek(0)
            print(f.read())
    with open("new") as f:
        print(f.read())
    shutil.rmtree("sub")
    os.remove("link")
    os.rename("gone", "away")
    os.remove("new")
    assert not os.path.exists("new")
    with open("/dev/null", "w") as null, open("/dev/stdout", "w") as out:
        null.write("nothing")
        print("said", file=out)
    """)
    assert r.out == "old+\n+\n+\nsaid\n"
    for name in ("part", "link", "sub/one", "gone"):
        assert (shm / name).read_text() == "old"
    assert sorted(p.name for p in shm.iterdir()) == ["gone", "link", "part",
                                                     "sub"]


def test_what_is_written_to_stdout_by_its_name_arrives(folder):
    """Also where that is a file that was there before."""
    with open(folder / "out", "w") as out:
        p = start(folder, """
        with open("/dev/stdout", "a") as f:
            print("said", file=f)
        """, options=(), stdout=out)
        finish(p)
    assert (folder / "out").read_text() == "said\n"


@pytest.mark.parametrize("weak", ["", "1"])
def test_processes_share_memory_as_ever(folder, weak):
    r = run_plain(folder, """
    import multiprocessing, os
    from multiprocessing import shared_memory
    import torch.multiprocessing

    def add(name, lock, tensors, done):
        m = shared_memory.SharedMemory(name)
        x = tensors.get()
        with lock:
            m.buf[0] += 1
            x += 1
        m.close()
        del x
        done.put(None)

    if __name__ == "__main__":
        torch.multiprocessing.set_sharing_strategy("file_system")
        m = shared_memory.SharedMemory(create=True, size=100)
        lock = multiprocessing.Lock()
        tensors, done = (torch.multiprocessing.Queue() for _ in range(2))
        x = torch.zeros(4000).share_memory_()
        crew = [torch.multiprocessing.Process(
            target=add, args=(m.name, lock, tensors, done))
            for _ in range(2)]
        for p in crew:
            p.start()
            tensors.put(x)
        for p in crew:
            done.get()
            p.join()
        print(m.buf[0], x.unique().tolist())
        m.close()
        m.unlink()
        assert not os.path.exists("/dev/shm/" + m.name)
    """, env={"MILLRACE_NO_SECCOMP": weak} if weak else None)
    assert r.out == "2 [2.0]\n"


# ---- where the kernel does not help ----

WEAK = {"MILLRACE_NO_SECCOMP": "1"}


def test_without_the_kernels_help_python_refuses(folder):
    """And saves beside, where PyTorch saves by itself."""
    (folder / "model.pt").write_text("old")
    (folder / "log").write_text("old")
    text = """
    from common import *

    if __name__ == "__main__":
        for x, i in DataLoader(Numbers(400), 4):
            time.sleep(0.002)
            torch.save(model.state_dict(), "model.pt")
            try:
                open("log", "a")
            except PermissionError as e:
                if not i[0]:
                    print(e)
    """
    r = run(folder, text, seconds=3, options=(),
            env=WEAK)
    assert "lets nothing be overwritten" in r.out
    for told in r.err.split("\nsamples/s", 1):  # at first, and in the notes
        assert "in C or C++" in told.replace("\n", " "), r.err
    assert (folder / "model.pt").read_text() == "old"
    assert (folder / "log").read_text() == "old"


def test_python_refuses_to_remove_and_rename_what_is_old(folder, shm):
    """However it is named."""
    for top in (folder, shm):
        (top / "runs" / "empty").mkdir(parents=True)
        (top / "link").symlink_to("runs")
        for name in ("one", "two", "runs/three"):
            (top / name).write_text("old")
    r = run_plain(folder, """
    import os, pathlib, shutil, sys, tempfile

    def refused(call, *args, **kw):
        try:
            call(*args, **kw)
        except PermissionError as e:
            assert "was there before" in str(e), e
        else:
            sys.exit(f"{call} {args} {kw}")

    for top in sys.argv[1:]:
        os.chdir(top)
        runs = os.open("runs", os.O_RDONLY)
        refused(shutil.rmtree, "runs")
        shutil.rmtree("runs", ignore_errors=True)
        refused(os.unlink, "three", dir_fd=runs)
        refused(os.remove, b"one")
        refused(os.remove, "link")
        refused(os.rmdir, "empty", dir_fd=runs)
        refused(os.rmdir, "runs/empty/")
        refused(os.rename, "runs", "away")
        refused(os.rename, "three", "away", src_dir_fd=runs)
        refused(os.rename, "one", "two")
        refused(os.truncate, "one", 0)
        refused(pathlib.Path("two").write_text, "new")
        with open("tmp", "w") as f:
            f.write("new")
        refused(os.replace, "tmp", "two")
        refused(os.replace, "tmp", "three", dst_dir_fd=runs)
        # what is new may be changed and go
        os.truncate("tmp", 1)
        os.rename("tmp", "three", dst_dir_fd=os.open(".", os.O_RDONLY))
        os.remove("three")
        os.makedirs("own/deep")
        with open("own/deep/file", "w") as f:
            f.write("new")
        os.symlink("deep", "own/link")
        os.rename("own", "mine")
        shutil.rmtree("mine")
        with tempfile.TemporaryDirectory(dir=".") as t:
            os.system(f"touch {t}/by-another-program")
        try:
            os.open("one", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        except FileExistsError:
            print("exists")
    """, folder, shm, env=WEAK)
    assert r.out == "exists\n" * 2
    for top in (folder, shm):
        assert (top / "runs" / "empty").is_dir()
        for name in ("one", "two", "runs/three", "link/three"):
            assert (top / name).read_text() == "old"
    assert sorted(p.name for p in shm.iterdir()) == ["link", "one", "runs",
                                                     "two"]


def test_python_lets_stdout_and_devices_be_written_to(folder):
    with open(folder / "out", "w") as out:
        p = start(folder, """
        for name in ("/dev/stdout", "/dev/null"):
            with open(name, "a") as f:
                print("said", file=f)
        """, options=(), stdout=out, env=WEAK)
        r = finish(p)
    assert (folder / "out").read_text() == "said\n", r.err
