# SPDX-License-Identifier: Apache-2.0
"""readability-lxml on the pages of a folder, one thread, for about SECONDS.

usage: peer_readability.py FOLDER SECONDS

Pages are in memory before the clock starts. Prints pages and bytes done,
seconds, and the text's bytes, as JSON.
"""
import json
import logging
import os
import sys
import time

import lxml.html
from readability import Document


def load(folder):
    pages = []
    for where, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            with open(os.path.join(where, name), "rb") as f:
                pages.append(f.read())
    return pages


def text(page):
    """As article text: the summary is HTML again."""
    summary = Document(page.decode("utf-8", "replace")).summary()
    return lxml.html.fromstring(summary).text_content()


def main():
    logging.disable(logging.CRITICAL)
    pages, seconds = load(sys.argv[1]), float(sys.argv[2])
    text(pages[0])
    done = size = out = 0
    start = time.perf_counter()
    while (took := time.perf_counter() - start) < seconds:
        # spread over all of them, as a short run sees only some
        page = pages[done * 7 % len(pages)]
        out += len(text(page))
        size += len(page)
        done += 1
    print(json.dumps({"pages": done, "bytes": size, "seconds": took,
                      "text": out}))


main()
