# SPDX-License-Identifier: Apache-2.0
"""Finds the module in the build tree (MILLRACE_BUILD, or build/)."""
import functools
import http.server
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("MILLRACE_BUILD", "build"))
MODULE = (ROOT / BUILD / "python").resolve()

sys.path.insert(0, str(MODULE))


@pytest.fixture(scope="session")
def torch():
    return pytest.importorskip("torch", reason="PyTorch is not installed")


@pytest.fixture
def array(tmp_path):
    """1,000 samples of 3 x 4 float32; sample i starts with i."""
    a = np.random.default_rng(7).random((1000, 3, 4), dtype=np.float32)
    a[:, 0, 0] = np.arange(1000)
    np.save(tmp_path / "a.npy", a)
    return a


@pytest.fixture
def npy(array, tmp_path):
    """The path of that array, for a pipeline."""
    return str(tmp_path / "a.npy")


@pytest.fixture
def folders(tmp_path):
    """Files of 0 to 39 bytes in the folders ant, bee and cat."""
    contents = {}
    for c, name in enumerate(["ant", "bee", "cat"]):
        (tmp_path / "set" / name).mkdir(parents=True)
        for i in range(13):
            data = bytes([c * 13 + i]) * (c * 13 + i + 1)
            path = tmp_path / "set" / name / f"{i:02}.bin"
            path.write_bytes(data)
            contents[f"{name}/{i:02}.bin"] = (data, c)
    return tmp_path / "set", contents


@pytest.fixture
def script():
    """Runs a Python text in a process of its own, as a user would; what it
    leaves behind, children too, ends with the test."""
    started = []

    def start(text, *args):
        env = dict(os.environ, PYTHONPATH=str(MODULE))
        p = subprocess.Popen([sys.executable, "-c", text, *map(str, args)],
                             env=env, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True,
                             start_new_session=True)
        started.append(p)
        return p
    yield start
    for p in started:
        try:
            os.killpg(p.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        p.communicate()


@pytest.fixture(scope="session")
def browser():
    webdriver = pytest.importorskip(
        "selenium.webdriver", reason="python3-selenium is not installed")
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        pytest.skip("chromium and chromium-driver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for word in ("--headless=new", "--no-sandbox", "--disable-gpu",
                 "--disable-dev-shm-usage", "--no-first-run",
                 "--disable-background-networking", "--window-size=1000,900"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    b = webdriver.Chrome(options=options,
                         service=webdriver.chrome.service.Service(driver))
    yield b
    b.quit()


@pytest.fixture
def served(folder):
    """The test's folder by HTTP, and what was asked of it."""
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            asked.append(self.path)

    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Handler, directory=folder))
    threading.Thread(target=server.serve_forever, args=(0.02,),
                     daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", asked
    server.shutdown()
    server.server_close()
