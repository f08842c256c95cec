# SPDX-License-Identifier: Apache-2.0
"""s3:// on a real server (OpenStack Swift), and on one made up for what that
does not do: short pages, tokens, signatures that are looked into."""
import hashlib
import hmac
import os
import pathlib
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import xml.sax.saxutils

import numpy as np
import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]
                       / "servers"))
from faulty import Server, free_port  # noqa: E402
import s3put  # noqa: E402
from test_remote import (ENV, SETS, containers, npy_bytes,  # noqa: E402
                         parts)

SWIFT = pathlib.Path(s3put.__file__).with_name("swift")
KEY, SECRET = "test:tester", "testing"
CLEAN = dict(ENV, AWS_REGION="", AWS_DEFAULT_REGION="", AWS_PROFILE="",
             AWS_SESSION_TOKEN="", AWS_ACCESS_KEY_ID="",
             AWS_SECRET_ACCESS_KEY="", AWS_ENDPOINT_URL="",
             AWS_ENDPOINT_URL_S3="", AWS_CONFIG_FILE="",
             AWS_SHARED_CREDENTIALS_FILE="")
# Each character is one that some server or library has got wrong.
ODD = "a b+c&d=e/%41~é'(x)!*#?/"


def env(endpoint, **more):
    return {**CLEAN, "AWS_ENDPOINT_URL": endpoint, "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET, **more}


@pytest.fixture(scope="session")
def arrays():
    a = np.random.default_rng(4).integers(0, 256, (12, 700), np.uint8)
    return [npy_bytes(p) for p in np.split(a, 3)]


@pytest.fixture(scope="session")
def want(mill, arrays, tmp_path_factory):
    """The digest of the three arrays in a row."""
    root = tmp_path_factory.mktemp("arrays")
    for i, data in enumerate(arrays):
        (root / f"{i}.npy").write_bytes(data)
    return mill.digest(f"npy {root}/?.npy | batch 5")


@pytest.fixture(scope="session")
def swift(tmp_path_factory, arrays):
    found = subprocess.run(["/usr/bin/python3", "-c", "import swift.proxy"],
                           capture_output=True)
    if found.returncode:
        pytest.skip("the S3 server python3-swift is not installed")
    port = free_port(4)
    p = subprocess.Popen([SWIFT, tmp_path_factory.mktemp("swift"), str(port)],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    endpoint = f"http://127.0.0.1:{port}"
    try:
        for _ in range(300):
            try:
                urllib.request.build_opener(urllib.request.ProxyHandler({})
                                            ).open(endpoint + "/healthcheck")
                break
            except OSError:
                time.sleep(0.1)
        s3put.put(endpoint, KEY, SECRET, "/bucket")
        for i, data in enumerate(arrays):
            for folder in ("plain/", ODD):
                s3put.put(endpoint, KEY, SECRET, f"/bucket/{folder}{i}.npy",
                          data)
        s3put.put(endpoint, KEY, SECRET, "/bucket/plain/deep/3.npy",
                  arrays[0])
        yield endpoint
    finally:
        p.send_signal(signal.SIGTERM)
        p.wait(10)


# ---- Swift ----

def test_objects_are_read_by_name_and_by_wildcard(mill, swift, want):
    for text in ("npy s3://bucket/plain/{0..2}.npy",
                 "npy s3://bucket/plain/*.npy", "npy s3://bucket/pl*/?.npy",
                 "npy s3://bucket/plain/[0-2].npy"):
        assert mill.digest(text + " | batch 5", env=env(swift)) == want


@pytest.fixture(scope="session")
def boxes(swift, containers):
    """The containers of test_remote.py in a bucket of their own."""
    s3put.put(swift, KEY, SECRET, "/boxes")
    for folder in ("plain", "packed", "tar", "tfrecord"):
        for p in (containers / folder).iterdir():
            s3put.put(swift, KEY, SECRET, f"/boxes/{folder}/{p.name}",
                      p.read_bytes())
    return containers


@pytest.mark.parametrize("order", ["sequential", "shuffle"])
@pytest.mark.parametrize("text", SETS, ids=lambda t: t.split("/")[1])
def test_containers_in_a_bucket_give_what_the_files_give(mill, swift, boxes,
                                                         text, order):
    args = ["--order", order, "--epochs", 2]
    want = mill.digest(text.format(boxes) + " | batch 7", *args)
    for fetch in ("auto", "direct"):
        assert mill.digest(text.format("s3://boxes") + " | batch 7", "--fetch",
                           fetch, *args, env=env(swift)) == want


def test_wildcards_find_containers_in_a_bucket(mill, swift, boxes):
    for kind in ("tar", "tfrecord"):
        text = f"{kind} '{{}}/{kind}/*.{kind}' index=no | batch 7"
        assert mill.digest(text.format("s3://boxes"), env=env(swift)) == \
            mill.digest(text.format(boxes))


def test_a_set_prepared_from_a_bucket_notices_what_became_of_it(
        mill, swift, arrays, tmp_path):
    s3put.put(swift, KEY, SECRET, "/changing")
    for i in range(2):
        s3put.put(swift, KEY, SECRET, f"/changing/{i}.npy", arrays[i])
    mill("prepare", "npy 's3://changing/*.npy'", "--out", tmp_path / "out",
         env=env(swift))
    text = f"records {tmp_path}/out | batch 4"
    mill("run", text, env=env(swift))
    s3put.put(swift, KEY, SECRET, "/changing/1.npy", arrays[2])
    mill.fails("run", text, code=1, env=env(swift), says=[
        "s3://changing/1.npy: has changed on the server", "prepare again"])
    s3put.put(swift, KEY, SECRET, "/changing/1.npy", arrays[1])
    mill("run", text, env=env(swift))
    s3put.put(swift, KEY, SECRET, "/changing/2.npy", arrays[2])
    mill.fails("run", text, code=1, env=env(swift), says=[
        "s3://changing/*.npy: finds 3 files"])


def test_keys_of_odd_characters_are_read(mill, swift, want):
    # The wildcards in it are its own; only the last is one.
    odd = ODD.replace("*", "[*]").replace("?", "[?]")
    quoted = f'npy "s3://bucket/{odd}?.npy" | batch 5'
    assert mill.digest(quoted, env=env(swift)) == want
    # A key that has wildcards in it can be named as it is.
    r = mill.json("run", f'npy "s3://bucket/{ODD}1.npy" | batch 5',
                  env=env(swift))
    assert r["samples"] == 4


def test_the_servers_reason_is_told(mill, swift):
    def fails(name, *says, **more):
        mill.fails("run", f"npy {name}", code=1, says=(f"{name}: ", *says),
                   env=env(swift, **more))
    fails("s3://bucket/none.npy", "404 ", "NoSuchKey")
    fails("s3://nobucket/a.npy", "404 ", "NoSuchBucket")
    fails("s3://nobucket/*.npy", "404 ", "NoSuchBucket")
    fails("s3://bucket/none*.npy", "no file matches")
    fails("s3://bucket/plain/0.npy", "403 ", "SignatureDoesNotMatch",
          AWS_SECRET_ACCESS_KEY="wrong")
    fails("s3://bucket/plain/0.npy", "asked without keys",
          AWS_ACCESS_KEY_ID="")


def test_a_key_is_taken_from_the_profile(mill, swift, want, tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text(
        "# mine\n[default]\naws_access_key_id = nobody\n"
        "aws_secret_access_key=nothing\n\n[ other ]\n"
        f"aws_access_key_id={KEY}\r\n  aws_secret_access_key =  {SECRET} \n"
        "[third]\naws_access_key_id=half\n")
    (tmp_path / ".aws" / "config").write_text(
        "[profile other]\nregion = us-east-1\n[profile far]\nregion=x/y\n")
    text = "npy s3://bucket/plain/{0..2}.npy | batch 5"
    mine = {**CLEAN, "AWS_ENDPOINT_URL_S3": swift, "HOME": str(tmp_path),
            "AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    assert mill.digest(text, env={**mine, "AWS_PROFILE": "other"}) == want
    for profile, code, says in (("", 1, "403 "), ("fourth", 2, "'fourth'"),
                                ("third", 2, "only one of"),
                                ("far", 2, "'x/y' is no region")):
        mill.fails("run", text, code=code, says=says,
                   env={**mine, "AWS_PROFILE": profile})


def test_wrong_names_and_settings_are_refused(mill):
    for name in ("s3://", "s3://bucket", "s3://bucket/", "s3:///key",
                 "s3://b@d/key"):
        mill.fails("run", f"npy {name}", code=2, says=name,
                   env=env("http://127.0.0.1:1"))
    mill.fails("run", "npy s3://bucket/key", code=2,
               says=("AWS_ENDPOINT_URL", "'here'"), env=env("here"))


# ---- pages, and what is signed ----

def signature(handler, secret):
    """What the client should have signed, from what came."""
    fields = dict(p.strip().split("=", 1) for p in
                  handler.headers["Authorization"].split(" ", 1)[1].split(","))
    path, _, query = handler.path.partition("?")
    names = fields["SignedHeaders"]
    headers = "".join(f"{n}:{handler.headers[n].strip()}\n"
                      for n in names.split(";"))
    query = "&".join(sorted(query.split("&"))) if query else ""
    canonical = "\n".join(["GET", path, query, headers, names,
                           handler.headers["x-amz-content-sha256"]])
    _, *scope = fields["Credential"].split("/")
    text = "\n".join(["AWS4-HMAC-SHA256", handler.headers["x-amz-date"],
                      "/".join(scope),
                      hashlib.sha256(canonical.encode()).hexdigest()])
    k = ("AWS4" + secret).encode()
    for part in scope:
        k = hmac.new(k, part.encode(), hashlib.sha256).digest()
    mac = hmac.new(k, text.encode(), hashlib.sha256).hexdigest()
    return mac == fields["Signature"], names, scope


class Bucket(Server):
    """Pages of two keys; tells what was signed, and by whom."""

    def __init__(self, objects):
        self.objects = objects
        self.signed = []
        super().__init__({"/bucket/" + urllib.parse.quote(k, safe="/~"): v
                          for k, v in objects.items()}, self.answer)

    def answer(self, h, path):
        if h.headers.get("Authorization"):
            self.signed.append(signature(h, SECRET))
        query = urllib.parse.parse_qs(h.path.partition("?")[2], True)
        if "list-type" not in query:
            return False
        at = int(query.get("continuation-token", ["tök&n=/+0"])[0][8:])
        keys = sorted(k for k in self.objects
                      if k.startswith(query["prefix"][0]))
        page, more = keys[at:at + 2], at + 2 < len(keys)
        body = "<ListBucketResult>" + "".join(
            "<Contents><Key>"
            + xml.sax.saxutils.escape(k, {"'": "&#39;", '"': "&#x22;"})
            + "</Key></Contents>" for k in page)
        if more:
            body += ("<NextContinuationToken>tök&amp;n=/+"
                     f"{at + 2}</NextContinuationToken>")
        body += f"<IsTruncated>{str(more).lower()}</IsTruncated>"
        h.refuse(200, {}, (body + "</ListBucketResult>").encode())
        return True


def test_a_list_of_many_pages_is_read_to_its_end(mill, arrays, want):
    names = ["d/x'1&.npy", "d/x\"2<.npy", "d/x3é.npy"]
    objects = dict(zip(sorted(names), arrays))
    objects.update({f"d/y{i}.npy": b"" for i in range(5)})
    with Bucket(objects) as s:
        got = mill.digest("npy s3://bucket/d/x*.npy | batch 5", env=env(s.url))
        assert got == want
        got = mill.digest("npy s3://bucket/*/x*.npy | batch 5", env=env(s.url))
        assert got == want
        assert len(s.signed) > 10 and all(good for good, _, _ in s.signed)


def test_token_and_region_are_signed(mill, arrays):
    with Bucket({"a.npy": arrays[0]}) as s:
        mill("run", "npy s3://bucket/a.npy | batch 5",
             env=env(s.url, AWS_SESSION_TOKEN="t/ok+en=", AWS_REGION="mars-1"))
        assert s.signed
        for good, names, scope in s.signed:
            assert good and "x-amz-security-token" in names
            assert scope[1:] == ["mars-1", "s3", "aws4_request"]


def test_without_keys_nothing_is_signed(mill, arrays):
    with Bucket({"a.npy": arrays[0]}) as s:
        mill("run", "npy s3://bucket/a.npy | batch 5",
             env=env(s.url, AWS_ACCESS_KEY_ID=""))
        assert s.asked and not s.signed


@pytest.mark.parametrize("body", [
    "", "<html>", "<Key>a", "<Key>&bad;</Key><IsTruncated>false</IsTruncated>",
    "<IsTruncated>true</IsTruncated>", "<Key>%s</Key>" % ("x" * 2000)])
def test_a_damaged_list_is_refused(mill, body):
    with Server({}, lambda h, p: h.refuse(200, {}, body.encode())
                or True) as s:
        mill.fails("run", "npy s3://bucket/*.npy", code=1,
                   says="s3://bucket/*.npy: the server's list", env=env(s.url))


def test_another_region_is_told(mill):
    body = b"<Error><Code>PermanentRedirect</Code><Message>There</Message>" \
           b"</Error>"

    def fault(h, path):
        h.refuse(301, {"x-amz-bucket-region": "eu-west-3",
                       "Location": "http://127.0.0.1:1/"}, body)
        return True
    with Server({}, fault) as s:
        mill.fails("run", "npy s3://bucket/a.npy", code=1, env=env(s.url),
                   says=("PermanentRedirect: There", "AWS_REGION=eu-west-3"))
