# SPDX-License-Identifier: Apache-2.0
"""Writes to an S3 server, for tests: PUTs, signed as version 4 wants it."""
import datetime
import hashlib
import hmac
import http.client
import time
import urllib.parse

TRIES = 100     # a tenth of a second apart, while it says that it is busy


def _mac(key, text):
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def put(endpoint, key, secret, path, body=b"", region="us-east-1"):
    """PUT /bucket or /bucket/key; the path is not escaped yet."""
    for _ in range(TRIES):
        status, text = _put(endpoint, key, secret, path, body, region)
        if status == 200:
            return
        if status != 503:
            break
        time.sleep(0.1)
    raise OSError(f"PUT {path}: {status} {text[:500]}")


def _put(endpoint, key, secret, path, body, region):
    host = urllib.parse.urlsplit(endpoint).netloc
    now = datetime.datetime.now(datetime.timezone.utc)
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    url = urllib.parse.quote(path, safe="/~")
    digest = hashlib.sha256(body).hexdigest()
    headers = {"host": host, "x-amz-content-sha256": digest,
               "x-amz-date": stamp}
    names = ";".join(sorted(headers))
    canonical = "\n".join(["PUT", url, "",
                           *(f"{k}:{v}" for k, v in sorted(headers.items())),
                           "", names, digest])
    scope = f"{day}/{region}/s3/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope,
                      hashlib.sha256(canonical.encode()).hexdigest()])
    k = ("AWS4" + secret).encode()
    for part in (day, region, "s3", "aws4_request"):
        k = _mac(k, part)
    signature = _mac(k, text).hex()
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={key}/{scope}, SignedHeaders={names}, "
        f"Signature={signature}")
    c = http.client.HTTPConnection(host, timeout=30)
    c.request("PUT", url, body, headers)
    answer = c.getresponse()
    text = answer.read()
    c.close()
    return answer.status, text
