# SPDX-License-Identifier: Apache-2.0
"""What a script that is diagnosed writes: no file that was there before is
changed."""
from scripts import folder, needed, run  # noqa: F401

pytestmark = needed

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
            env={"MILLRACE_NO_SECCOMP": "1"})
    assert "lets nothing be overwritten" in r.out
    assert (folder / "model.pt").read_text() == "old"
    assert (folder / "log").read_text() == "old"
