# SPDX-License-Identifier: Apache-2.0
"""Files on servers: a real nginx, and one that misbehaves."""
import io
import os
import pathlib
import shutil
import signal
import ssl
import struct
import subprocess
import sys
import tarfile
import time

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]
                       / "servers"))
from faulty import Server, free_port  # noqa: E402

ENV = {"MILLRACE_HTTP_BACKOFF": "0.01", "NO_PROXY": "127.0.0.1",
       "no_proxy": "127.0.0.1", "HOME": "/nowhere"}
ROWS = 60


def npy_bytes(a):
    f = io.BytesIO()
    np.save(f, a)
    return f.getvalue()


@pytest.fixture(scope="session")
def parts(tmp_path_factory):
    """Three arrays of 20 x 5,000 bytes, and labels."""
    root = tmp_path_factory.mktemp("parts")
    a = np.random.default_rng(9).integers(0, 256, (ROWS, 5000), np.uint8)
    for i, part in enumerate(np.split(a, 3)):
        np.save(root / f"p-{i:03}.npy", part)
    np.save(root / "labels.npy", np.arange(ROWS))
    (root / "empty.npy").write_bytes(b"")
    (root / "with space.npy").write_bytes((root / "p-001.npy").read_bytes())
    return root


@pytest.fixture(scope="session")
def files(parts):
    return {f"/{p.name}": p.read_bytes() for p in parts.iterdir()}


@pytest.fixture(scope="session")
def one(mill, parts):
    """The digest of the second array."""
    return mill.digest(f"npy {parts}/p-001.npy | batch 7")


@pytest.fixture(scope="session")
def nginx(tmp_path_factory, parts):
    binary = shutil.which("nginx") or "/usr/sbin/nginx"
    if not os.path.exists(binary):
        pytest.skip("nginx is not installed")
    top, port = tmp_path_factory.mktemp("nginx"), free_port()
    temps = "".join(f"{k}_temp_path {top}/tmp;" for k in (
        "client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    (top / "conf").write_text(
        f"daemon off; master_process off; pid {top}/pid;"
        f"error_log {top}/log; events {{ }} http {{ access_log off; {temps}"
        f"server {{ listen 127.0.0.1:{port}; root {parts}; }} }}")
    p = subprocess.Popen([binary, "-c", top / "conf", "-e", top / "log"],
                         stderr=subprocess.DEVNULL)
    for _ in range(200):
        if (top / "pid").exists() and (top / "pid").read_text().strip():
            break
        time.sleep(0.02)
    yield f"http://127.0.0.1:{port}"
    p.kill()
    p.wait()


def run(mill, pipeline, *args, **env):
    return mill.json("run", pipeline, *args, "--digest", env={**ENV, **env})


def fails(mill, pipeline, *says, code=1, **env):
    return mill.fails("run", pipeline, code=code, says=says,
                      env={**ENV, **env})


# ---- nginx ----

@pytest.mark.parametrize("fetch", ["auto", "ahead", "direct"])
@pytest.mark.parametrize("threads", [1, 4])
def test_a_web_server_gives_what_the_files_give(mill, parts, nginx, fetch,
                                                threads):
    text = "npy {0}/p-{{000..002}}.npy labels={0}/labels.npy {1} | batch 7"
    for steps in ("", "| cast f32"):
        want = mill.digest(text.format(parts, steps), "--epochs", 2)
        got = run(mill, text.format(nginx, steps), "--epochs", 2, "--threads",
                  threads, "--fetch", fetch)
        assert got["digest"] == want
        assert got["bytes_read"] == 2 * ROWS * 5000


@pytest.mark.parametrize("fetch", ["auto", "direct"])
def test_what_is_cached_is_not_asked_for_again(mill, parts, files, fetch):
    want = mill.digest(f"npy {parts}/p-001.npy | batch 7", "--epochs", 4)
    with Server(files) as s:
        asked = []
        for epochs in (1, 4):
            del s.asked[:]
            got = run(mill, f"npy {s.url}/p-001.npy | cache ram=1M | batch 7",
                      "--epochs", epochs, "--fetch", fetch)
            asked.append(len(s.asked))
    assert got["digest"] == want and got["bytes_read"] == ROWS // 3 * 5000
    assert got["cache"]["hits"] == ROWS and asked[0] == asked[1]


def test_reading_from_a_server_is_ahead_from_the_start(mill, nginx):
    out = mill("run", f"npy {nginx}/p-000.npy | batch 4", env=ENV).stdout
    assert "reading: threads" in out


def test_names_are_escaped(mill, nginx, one):
    got = run(mill, f"npy '{nginx}/with space.npy' | batch 7")
    assert got["digest"] == one
    got = run(mill, f"npy {nginx}/with%20space.npy | batch 7")
    assert got["digest"] == one


def test_a_missing_file_is_named_with_the_servers_words(mill, nginx):
    fails(mill, f"npy {nginx}/p-{{000..003}}.npy", f"{nginx}/p-003.npy: ",
          "404 Not Found")


def test_an_empty_file_is_empty(mill, nginx):
    fails(mill, f"npy {nginx}/empty.npy", "no NumPy file: 0 bytes")


def test_a_file_that_changes_on_the_server_is_noticed(mill, nginx, parts):
    path = parts / "changing.npy"
    np.save(path, np.zeros((4000, 500), np.uint8))
    p = mill.start("run", f"npy {nginx}/changing.npy | batch 4", "--epochs",
                   100000, env=ENV)
    np.save(parts / "new.npy", np.ones((4000, 500), np.uint8))
    os.utime(parts / "new.npy", (1e9, 1e9))  # nginx's ETag has whole seconds
    os.replace(parts / "new.npy", path)
    r = mill.finish(p)
    assert r.returncode == 1
    assert "changing.npy: has changed on the server" in r.stderr


def test_wildcards_of_web_servers_are_refused_with_advice(mill, nginx):
    fails(mill, f"npy {nginx}/p-*.npy", "p-*.npy: a web server does not list",
          "{000..147}", code=2)
    fails(mill, f"npy {nginx}/p-00[01].npy", "does not list", code=2)


def test_a_mapping_of_a_url_is_refused(mill, nginx):
    fails(mill, f"npy {nginx}/p-000.npy map=yes", "p-000.npy: cannot map",
          "map=no")


# ---- braces, wherever the files are ----

def test_braces_count_and_keep_their_order(mill, parts):
    def order(pattern):
        return mill.digest(f"npy '{parts}/{pattern}'", "--order", "sequential")
    up = order("p-*.npy")
    assert order("p-{000..002}.npy") == order("p-00{0,1,2}.npy") == up
    assert order("p-{00{0,1},002}.npy") == up
    down = order("p-{002..000}.npy")
    assert down == order("p-{002,001,000}.npy") != up
    assert order("p-{000..002..2}.npy") == order("p-00{0,2}.npy")


def test_a_file_that_braces_name_must_exist(mill, parts):
    fails(mill, f"npy {parts}/p-{{001..004}}.npy", "p-003.npy: no such file")


def test_too_many_names_are_refused(mill):
    fails(mill, "npy x{0..9999999}", "more than 1000000 names")


# ---- indexes ----

def tar_of(n, size):
    """The bytes of a tar of n samples."""
    f = io.BytesIO()
    with tarfile.open(fileobj=f, mode="w") as t:
        for i in range(n):
            m = tarfile.TarInfo(f"{i:05}.bin")
            m.size = size
            t.addfile(m, io.BytesIO(bytes([i % 256]) * size))
    return f.getvalue()


def masked(data):
    """The CRC-32C of a TFRecord."""
    c = 0xffffffff
    for b in data:
        c ^= b
        for _ in range(8):
            c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
    c ^= 0xffffffff
    return struct.pack("<I", ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff)


def record_of(data):
    """A record of an example with the feature x; data of 128 bytes or more."""
    def message(number, body):
        return bytes([number << 3 | 2, len(body) & 127 | 128,
                      len(body) >> 7]) + body
    body = message(1, message(1, b"\n\1x" + message(
        2, message(1, message(1, data)))))
    length = struct.pack("<Q", len(body))
    return length + masked(length) + body + masked(body)


@pytest.fixture(scope="session")
def indexed():
    return {"/a.tar": tar_of(3000, 600),
            "/a.tfrecord": record_of(b"12345" * 120) * 3000}


@pytest.mark.parametrize("source", ["tar", "tfrecord"])
def test_the_index_of_a_file_on_a_server_is_kept(mill, indexed, source,
                                                 tmp_path):
    env = {**ENV, "XDG_CACHE_HOME": str(tmp_path / "c")}
    files, etag = dict(indexed), ['"one"']

    def fault(h, path):
        h.serve(path, etag=etag[0])
        return True

    def opened():
        s.asked.clear()
        text = f"{source} {s.url}/a.{source} | batch 4"
        assert "\n3,000 samples" in mill("explain", text, env=env).stdout
        return sum(int(r[1].split("-")[1]) - int(r[1].split("=")[1]
                   .split("-")[0]) + 1 for r in s.asked)
    with Server(files, fault) as s:
        first = opened()
        (index,) = (tmp_path / "c" / "millrace").iterdir()
        made = index.stat().st_mtime_ns
        assert opened() < first / 2
        assert index.stat().st_mtime_ns == made
        etag[0] = '"two"'
        assert opened() == first
        assert index.stat().st_mtime_ns != made
        # Nobody could tell whether it is still the same.
        etag[0] = ""
        assert opened() == first
        assert opened() == first


def test_a_server_is_asked_for_many_files_at_once(mill):
    def fault(h, path):
        h.sleep(0.05)
        return False
    files = {f"/{i:02}.tar": tar_of(3, 100) for i in range(40)}
    with Server(files, fault) as s:
        text = f"tar {s.url}/{{00..39}}.tar index=no | batch 4"
        assert "120 samples" in mill("explain", text, "--threads", 1,
                                     env=ENV).stdout
        assert s.most_inside >= 10


# ---- what passes ----

def test_a_busy_server_is_asked_again(mill, files, one):
    def fault(h, path):
        if h.times() > 2:
            return False
        h.refuse(429 if h.times() == 1 else 503)
        return True
    with Server(files, fault) as s:
        for fetch in ("auto", "direct"):
            s.seen.clear()
            got = run(mill, f"npy {s.url}/p-001.npy | batch 7", "--fetch",
                      fetch)
            assert got["digest"] == one and got["bad_samples"] == 0


def test_a_cut_answer_is_continued_where_it_ended(mill, files, one):
    def fault(h, path):
        first = int(h.headers["Range"].split("=")[1].split("-")[0])
        if h.opening() or first % 5000 != 128:
            return False
        h.serve(path, cut=1000)
        return True
    with Server(files, fault) as s:
        got = run(mill, f"npy {s.url}/p-001.npy | batch 7")
        assert got["digest"] == one
        ranges = {r for _, r in s.asked}
        assert "bytes=128-5127" in ranges and "bytes=1128-5127" in ranges


def test_dropped_connections_are_made_again(mill, files, one):
    def fault(h, path):
        if h.times() > 1:
            return False
        h.hang_up()
        return True
    with Server(files, fault) as s:
        got = run(mill, f"npy {s.url}/p-001.npy | batch 7")
        assert got["digest"] == one


def test_a_silent_server_is_asked_again(mill, files, one):
    def fault(h, path):
        if h.headers["Range"] == "bytes=5128-10127" and h.times() == 1:
            h.sleep(30)
        return False
    with Server(files, fault) as s:
        got = run(mill, f"npy {s.url}/p-001.npy | batch 7",
                  MILLRACE_HTTP_TIMEOUT="1")
        assert got["digest"] == one and got["seconds"] < 20


def test_redirects_are_followed(mill, files, one):
    def fault(h, path):
        if not path.startswith("/moved"):
            return False
        n = int(path[6])
        h.refuse(302, {"Location": path.replace(f"moved{n}", f"moved{n - 1}")
                       if n > 1 else path[7:]})
        return True
    with Server(files, fault) as s:
        got = run(mill, f"npy {s.url}/moved5/p-001.npy | batch 7")
        assert got["digest"] == one
        fails(mill, f"npy {s.url}/moved6/p-001.npy", "/moved6/p-001.npy: ",
              "redirects")


def test_connections_are_used_again(mill, files, one):
    with Server(files) as s:
        got = run(mill, f"npy {s.url}/p-001.npy | batch 7", "--fetch",
                  "direct", "--threads", 1)
        assert got["digest"] == one
        assert s.connections <= 2
        assert len(s.asked) == 20 + 2  # its size, and its header


@pytest.mark.parametrize("n,step,most", [
    (512, 1000, 10), (512, 70000, 12), (16, 16, 10), (9, 400000, 12),
    (20000, 20000, 200)])
def test_whoever_indexes_a_file_shares_requests(mill, n, step, most):
    data = np.random.default_rng(2).bytes(3000000 if step > 16 else 400000)
    with Server({"/x": data}) as s:
        out = subprocess.run([mill.build / "tests" / "input_tool", s.url + "/x",
                              str(n), str(step)], env={**os.environ, **ENV},
                             capture_output=True, timeout=60)
        assert out.returncode == 0, out.stderr
        assert out.stdout == b"".join(
            data[i:i + n] for i in range(0, len(data) - n + 1, step))
        assert len(s.asked) <= most


def test_many_requests_are_in_flight_on_a_slow_server(mill, files, one):
    def fault(h, path):
        h.sleep(0.02)
        return False
    with Server(files, fault) as s:
        got = run(mill, f"npy {s.url}/p-001.npy | batch 7")
        assert got["digest"] == one
        assert s.most_inside >= 8


def test_large_samples_are_read_ahead_too(mill, tmp_path):
    a = np.random.default_rng(3).integers(0, 256, (12, 1 << 20), np.uint8)
    np.save(tmp_path / "a.npy", a)
    want = mill.digest(f"npy {tmp_path}/a.npy | batch 3")

    def fault(h, path):
        h.sleep(0.02)
        return False
    with Server({"/a.npy": npy_bytes(a)}, fault) as s:
        got = run(mill, f"npy {s.url}/a.npy | batch 3")
        assert got["digest"] == want and s.most_inside >= 3
        # and where the memory is not enough for that
        got = run(mill, f"npy {s.url}/a.npy | batch 3", "--memory", "13M")
        assert got["digest"] == want


def test_parameters_of_a_url_reach_the_server_as_they_are(mill, files, one):
    with Server(files) as s:
        got = run(mill, f"npy '{s.url}/p-001.npy?sign=a%2Fb+c&x=*' | batch 7")
        assert got["digest"] == one
        assert {p for p, _ in s.asked} == {"/p-001.npy?sign=a%2Fb+c&x=*"}


# ---- what does not ----

@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refusal_is_not_repeated(mill, files, status):
    body = b"<?xml version='1.0'?><Error><Code>Nope</Code><Message>because " \
           b"&lt;so&gt;</Message></Error>"
    with Server(files, lambda h, p: h.refuse(status, {}, body) or True) as s:
        fails(mill, f"npy {s.url}/p-001.npy", f"/p-001.npy: the server says "
              f"{status} ", "(Nope: because <so>)")
        assert len(s.asked) == 1


def test_a_server_that_stays_busy_is_given_up(mill, files):
    with Server(files, lambda h, p: h.refuse(503) or True) as s:
        fails(mill, f"npy {s.url}/p-001.npy", "/p-001.npy: ", "tried 3 times",
              "503 Service Unavailable", MILLRACE_HTTP_RETRIES="2")
        assert len(s.asked) == 3


def broken_row(h, path):
    """Samples are there, but the third."""
    if h.headers["Range"] != "bytes=10128-15127":
        return False
    h.refuse(500)
    return True


@pytest.mark.parametrize("fetch", ["auto", "direct"])
def test_a_sample_that_cannot_be_read_is_the_only_one_lost(mill, files, fetch):
    with Server(files, broken_row) as s:
        got = run(mill, f"npy {s.url}/p-001.npy | batch 7", "--on-error",
                  "skip", "--fetch", fetch, MILLRACE_HTTP_RETRIES="2")
        assert got["bad_samples"] == 1 and got["samples"] == 19
        # what failed ahead is asked once more for the words, not all over
        tries = s.seen["/p-001.npy", "bytes=10128-15127"]
        assert tries == (3 if fetch == "direct" else 4)


def test_a_sample_that_cannot_be_read_ahead_has_the_servers_words(mill, files):
    with Server(files, broken_row) as s:
        fails(mill, f"npy {s.url}/p-001.npy | batch 7", "/p-001.npy: cannot "
              "read: 500 Internal Server Error", MILLRACE_HTTP_RETRIES="1")


@pytest.mark.parametrize("fetch", ["auto", "direct"])
def test_another_etag_is_another_object(mill, files, fetch):
    def fault(h, path):
        big = int(h.headers["Range"].split("=")[1].split("-")[0]) > 50000
        h.serve(path, etag='"new"' if big else 'W/"old"')
        return True
    with Server(files, fault) as s:
        fails(mill, f"npy {s.url}/p-001.npy | batch 7", "/p-001.npy: has "
              "changed on the server", 'W/"old", is "new"',
              MILLRACE_HTTP_RETRIES="3")
        got = run(mill, f"npy {s.url}/p-001.npy | batch 7", "--on-error",
                  "skip", "--fetch", fetch)
        assert got["samples"] + got["bad_samples"] == 20
        assert got["bad_samples"] in (9, 10)


def test_the_etag_is_sent_and_412_is_a_change(mill, files):
    def fault(h, path):
        if h.opening() or h.headers["If-Match"] != '"e1"':
            h.serve(path, etag='"e1"')
        elif h.headers["Range"].startswith("bytes=5128-"):
            h.refuse(412)
        else:
            h.serve(path, etag='"e1"')
        return True
    with Server(files, fault) as s:
        fails(mill, f"npy {s.url}/p-001.npy | batch 7", "has changed")


def test_another_size_is_another_object(mill, files):
    def fault(h, path):
        h.serve(path, etag="", total=None if h.opening() else 999999)
        return True
    with Server(files, fault) as s:
        fails(mill, f"npy {s.url}/p-001.npy | batch 7", "has changed")


def test_another_date_is_another_object_where_there_is_no_etag(mill, files):
    def fault(h, path):
        day = 1 if h.opening() else 2
        h.serve(path, etag="", date=f"Mon, 0{day} Jan 2024 00:00:00 GMT")
        return True
    with Server(files, fault) as s:
        fails(mill, f"npy {s.url}/p-001.npy | batch 7", "has changed")


def test_other_bytes_than_asked_for_are_refused(mill, files):
    def fault(h, path):
        h.serve(path, shift=0 if h.opening() else 1)
        return True
    with Server(files, fault) as s:
        fails(mill, f"npy {s.url}/p-001.npy", "/p-001.npy: asked for the "
              "bytes 0 to 65535, the server sent 1 to 65536")


def test_a_server_without_ranges_is_refused_with_advice(mill, files):
    with Server(files, lambda h, p: h.serve(p, ranges=False) or True) as s:
        fails(mill, f"npy {s.url}/p-001.npy", "/p-001.npy: the server sends "
              "only all of it", "copy the file")


def test_a_redirect_to_a_file_is_refused(mill, files):
    def fault(h, path):
        h.refuse(302, {"Location": "file:///etc/passwd"})
        return True
    with Server(files, fault) as s:
        fails(mill, f"npy {s.url}/p-001.npy", "/p-001.npy: cannot read: ")


def test_a_server_that_is_not_there_is_named(mill):
    fails(mill, f"npy http://127.0.0.1:{free_port()}/a.npy", "tried 2 times",
          "connect", MILLRACE_HTTP_RETRIES="1")
    fails(mill, "npy http:///a.npy", "names no server", code=2)


def test_a_password_in_a_url_is_refused_and_not_shown(mill):
    r = fails(mill, "npy http://me:secret@127.0.0.1/a.npy", "~/.netrc",
              code=2)
    assert "secret" not in r.stderr


def test_wrong_settings_are_named(mill):
    for name in ("RETRIES", "BACKOFF", "TIMEOUT"):
        fails(mill, "npy http://127.0.0.1/a.npy", f"MILLRACE_HTTP_{name}",
              "'many'", code=2, **{f"MILLRACE_HTTP_{name}": "many"})


@pytest.mark.parametrize("how", ["silent", "busy"])
def test_an_interrupt_ends_waiting_for_a_server(mill, files, how):
    def fault(h, path):
        first = int(h.headers["Range"].split("=")[1].split("-")[0])
        if first < 50000:
            return False
        if how == "silent":
            h.sleep(60)
        else:
            h.refuse(503)
        return True
    with Server(files, fault) as s:
        p = mill.start("run", f"npy {s.url}/p-001.npy | batch 2", "--order",
                       "sequential",
                       env={**ENV, "MILLRACE_HTTP_BACKOFF": "20"})
        time.sleep(0.3)
        t0 = time.time()
        p.send_signal(signal.SIGINT)
        mill.finish(p)
        assert time.time() - t0 < 10


# ---- TLS ----

def test_certificates_are_checked(mill, files, one, tmp_path):
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj",
                    "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"
                    ], check=True, capture_output=True)
    with Server(files) as s:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(cert, key)
        s.socket = tls.wrap_socket(s.socket, server_side=True)
        url = f"https://localhost:{s.server_port}/p-001.npy"
        proxy = {"NO_PROXY": "localhost", "no_proxy": "localhost"}
        fails(mill, f"npy {url}", "cannot read: ", "certificate", **proxy)
        for name in ("CURL_CA_BUNDLE", "SSL_CERT_FILE"):
            only = {"CURL_CA_BUNDLE": "", "SSL_CERT_FILE": "",
                    name: str(cert)}
            got = run(mill, f"npy {url} | batch 7", **proxy, **only)
            assert got["digest"] == one


# ---- prepared sets and the containers of others ----

@pytest.fixture(scope="session")
def containers(mill, parts):
    """The same samples as records, tar and tfrecord, below the root."""
    source = f"npy {parts}/p-{{000..002}}.npy labels={parts}/labels.npy"
    mill("prepare", source, "--out", parts / "plain", "--shards", 3)
    mill("prepare", f"{source} | cast i16", "--out", parts / "packed",
         "--codec", "zstd", "--shards", 2, "--literal")
    for to in ("tar", "tfrecord"):
        mill("convert", source, "--to", to, "--out", parts / to, "--shards", 2)
    return parts


SETS = ["records {0}/plain", "records {0}/packed",
        "tar {0}/tar/shard-{{000000..000001}}.tar index=no",
        "tfrecord {0}/tfrecord/shard-{{00000..00001}}-of-00002.tfrecord "
        "index=no"]


@pytest.mark.parametrize("order", ["sequential", "block", "shuffle"])
@pytest.mark.parametrize("text", SETS, ids=lambda t: t.split("/")[1])
def test_containers_on_a_server_give_what_the_files_give(mill, containers,
                                                         nginx, text, order):
    args = ["--order", order, "--block", 5, "--epochs", 2]
    want = mill.digest(text.format(containers) + " | batch 7", *args)
    for fetch in ("auto", "ahead", "direct"):
        got = run(mill, text.format(nginx) + " | batch 7", "--fetch", fetch,
                  *args)
        assert got["digest"] == want


def test_a_set_on_a_server_is_verified(mill, containers, nginx):
    mill("verify", f"{nginx}/packed", env=ENV)
    mill.fails("verify", f"{nginx}/nothing", code=1, says=[
        f"{nginx}/nothing/meta.json", "404"], env=ENV)


@pytest.mark.parametrize("order", ["sequential", "block", "shuffle"])
def test_a_shard_that_changes_on_the_server_is_noticed(mill, nginx, parts,
                                                       order):
    out = parts / f"changing-{order}"
    mill("prepare", "synthetic 500 u8 count=4000", "--out", out, "--shards", 2)
    p = mill.start("run", f"records {nginx}/{out.name} | batch 4", "--epochs",
                   100000, "--order", order, env=ENV)
    shard = out / "shard-00001.mrs"
    data = bytearray(shard.read_bytes())
    data[5000] ^= 1
    (out / "new").write_bytes(data)
    os.utime(out / "new", (1e9, 1e9))  # nginx's ETag has whole seconds
    os.replace(out / "new", shard)
    r = mill.finish(p)
    assert r.returncode == 1
    assert f"{nginx}/{out.name}/shard-00001.mrs: has changed on the server" \
        in r.stderr


def test_a_set_prepared_from_a_server_notices_a_changed_file(mill, files,
                                                             tmp_path):
    etag = {"/p-000.npy": '"a"', "/p-001.npy": '"b"'}
    env = {**ENV, "MILLRACE_HTTP_BACKOFF": "60"}

    def fault(h, path):
        h.serve(path, etag=etag[path])
        return True
    with Server(dict(files), fault) as s:
        mill("prepare", f"npy {s.url}/p-{{000..001}}.npy", "--out",
             tmp_path / "out", env=ENV)
        text = f"records {tmp_path}/out {{}} | batch 4"
        s.asked.clear()
        mill("run", text.format(""), env=ENV)
        assert len(s.asked) == 2  # one request for each file
        etag["/p-001.npy"] = '"c"'
        mill.fails("run", text.format(""), code=1, env=ENV, says=[
            f"{s.url}/p-001.npy: has changed on the server", "prepare again"])
        mill("run", text.format("check=no"), env=ENV)
    # Nobody answers: the set is taken as it is, and without a wait.
    mill("run", text.format(""), env=env)
