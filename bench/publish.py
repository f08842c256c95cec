#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Turns what `make bench` measured into documents.

usage: bench/publish.py BUILD_DIR [DOCS_DIR]

Reads BUILD_DIR/bench/images.json and writes DOCS_DIR/benchmarks.md and
DOCS_DIR/images.svg (default: docs). Figures of a --quick run, or of a run
that other processes disturbed, are refused.
"""
import json
import os
import sys
from xml.sax.saxutils import escape

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from common import ROOT, Report, number  # noqa: E402

# What the chart shows: key of the measurement, label, kind of bar.
BARS = [
    ("bare region, imagenet, 2", "libjpeg-turbo alone, the crop's region",
     "bare"),
    ("millrace, imagenet, 2", "Millrace", "ours"),
    ("ffcv q90, imagenet, nchw, 2", "FFCV, photos re-encoded to q90", "peer"),
    ("ffcv bytes, imagenet, nchw, 2", "FFCV, the same bytes", "peer"),
    ("torch cv2, imagenet, 2", "torch DataLoader + OpenCV", "peer"),
    ("torch pil, imagenet, 2", "torch DataLoader + Pillow", "peer"),
]
HOW = """\
## How it is measured

- The work is the same on all sides: a JPEG photo becomes a normalised f32
  tensor of 3 x 224 x 224 (NCHW) in a batch; for training after a random
  resized crop and a flip, for validation after `resize 256 | center_crop 224`.
- What is compared runs in the same round, one after the other, in turned
  order every second round; a ratio is the median of the rounds' own ratios.
  Peers are started and warmed up (compiled) before.
- Everything is in the page cache. Millrace's time includes opening and
  listing; the bare loops hold all files in memory and only decode. They are
  a reference, not a bound: they decode with libjpeg-turbo, Millrace decodes
  the usual JPEG files by itself, to the same pixels.
- FFCV cannot keep a JPEG file's bytes: its writer decodes and encodes anew
  with quality 90 and 4:2:0, which is less work to decode. "its q90
  re-encoding" is FFCV as it comes; "the same bytes" is FFCV with a patched
  writer; `q90` are the re-encoded bytes taken out of FFCV's file, for the
  other sides. Channels last is FFCV's default layout, and saves it a copy.
- OpenCV scales without antialiasing and FFCV by areas: less work than
  Pillow's filter, which Millrace computes.

Repeat it: `make bench`, then `bench/publish.py build`.
"""


class Refused(Exception):
    pass


def load(build):
    path = os.path.join(build, "bench", "images.json")
    try:
        with open(path) as f:
            top = json.load(f)
    except (OSError, ValueError) as e:
        raise Refused(f"{path}: {e}; run `bench/run {build} images`") \
            from None
    if top["quick"]:
        raise Refused(f"{path} is from a --quick run")
    if top.get("partial"):
        raise Refused(f"{path} has only a part: {top['partial']}")
    if top.get("disturbed"):
        raise Refused(f"{path}: " + next(
            (n for n in top["notes"] if "others took" in n),
            "the machine was disturbed") + "; run it again on a quiet machine")
    return top


def machine(top):
    m = top["machine"]
    return (f"{top['date'][:10]}, {m['cpu']}, {m['cores']} cores, "
            f"{m['memory_gib']:.0f} GiB, {m['kernel']}")


def rates(top, group):
    """A table: who, on which bytes and layout, with 1 and 2 threads."""
    rows = {}
    for x in top["measurements"]:
        if x.get("group") == group:
            at = (x["side"], x["data"], x["layout"])
            rows.setdefault(at, {})[x["n"]] = x
    bare = {data: by[2]["median"] for (side, data, _), by in rows.items()
            if 2 in by and side.endswith((", region", ", center"))}
    cells = []
    for (side, data, layout), by in rows.items():
        cpu = by.get(2, {}).get("cpu_ms_per_image")
        share = by[2]["median"] / bare[data] if 2 in by and data in bare \
            else None
        cells.append((side, data, layout,
                      number(by[1]["median"]) if 1 in by else "",
                      number(by[2]["median"]) if 2 in by else "",
                      f"{share * 100:.0f} %" if share else "",
                      f"{sorted(cpu)[len(cpu) // 2]:.2f}" if cpu else ""))
    return Report.table(("images/s", "photos", "layout", "1 thread", "2",
                         "of bare", "CPU ms/photo"), cells)


def plain(top, group):
    return Report.table(
        ("", "median", "min", "max"),
        [(x["name"].split(": ", 1)[1], f"{number(x['median'])} {x['unit']}",
          number(x["min"]), number(x["max"]))
         for x in top["measurements"] if x.get("group") == group])


def markdown(top):
    s = top["settings"]
    lines = ["# Benchmarks: photos", "",
             f"Measured {machine(top)}, by `make bench`; written by "
             "bench/publish.py, not by hand.", "",
             "![images per second](images.svg)", ""]
    sections = (("train", f"Training: `{s['train']}`"),
                ("train, large", f"Large photos ({s.get('size_large')}, "
                 f"{s.get('bytes_each_large', 0) / 1000:.0f} KB), batch "
                 f"{s.get('batch_large')}"),
                ("train, synth", "Photos from `millrace synth images`"),
                ("val", f"Validation: `{s['val']}`"))
    for group, title in sections:
        if any(x.get("group") == group for x in top["measurements"]):
            lines += [f"## {title}", "", *rates(top, group)]
    for group, title in (("first batch", "From the start of a process to its "
                          "first batch"), ("memory", "Memory, 2 threads")):
        lines += [f"## {title}", "", *plain(top, group)]
    lines += ["## Compared", "", *Report.table(
        ("", "median", "min", "max", "95 %", "target", ""),
        [Report.ratio_row(x) for x in top["ratios"]
         if "median" in x or "target" in x])]
    lines += [f"- not measured: {x['name']}: {x['reason']}"
              for x in top["failed"]]
    lines += [f"- {x}" for x in top["notes"]]
    if top["failed"] or top["notes"]:
        lines.append("")
    if "bytes_each_imagenet" in s:
        lines += [f"`imagenet` are {s['photos']} photos of ImageNet, "
                  f"{s['bytes_each_imagenet'] / 1000:.0f} KB each on average "
                  f"({s['bytes_each_q90'] / 1000:.0f} KB re-encoded), under "
                  f"{s['names_per_photo']} names each.", ""]
    return "\n".join(lines) + HOW


STYLE = """\
text { font: 14px system-ui, -apple-system, "Segoe UI", Helvetica, Arial,
  sans-serif; fill: #1f2328; }
.small { font-size: 12px; fill: #59636e; }
.title { font-weight: 600; }
.ours { fill: #0969da; }
.peer { fill: #8c959f; }
.bare { fill: none; stroke: #8c959f; stroke-width: 1.5;
  stroke-dasharray: 4 3; }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3; }
  .small { fill: #9198a1; }
  .ours { fill: #4493f8; }
  .peer { fill: #6e7681; }
  .bare { stroke: #9198a1; }
}"""


def svg(top):
    found = {x["key"]: x["median"] for x in top["measurements"]
             if x.get("group") == "train"}
    bars = [(label, kind, found[key]) for key, label, kind in BARS
            if key in found]
    if not bars:
        raise Refused("no rates of real photos to draw")
    left, width, step, high = 290, 360, 34, 20
    total = left + width + 70
    bottom = 56 + step * len(bars)
    most = max(v for _, _, v in bars)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{total}" '
           f'height="{bottom + 44}" viewBox="0 0 {total} {bottom + 44}" '
           'role="img" aria-label="Photos per second, training pipeline">',
           f"<style>{STYLE}</style>",
           '<text class="title" x="0" y="18">Photos per second, JPEG to '
           'training batches, 2 threads</text>',
           '<text class="small" x="0" y="38">longer is better; decode, random '
           'resized crop to 224, flip, normalise, f32 NCHW</text>']
    for i, (label, kind, v) in enumerate(bars):
        y = 56 + i * step
        w = max(1, v / most * width)
        out += [f'<text x="{left - 10}" y="{y + 15}" text-anchor="end">'
                f"{escape(label)}</text>",
                f'<rect class="{kind}" x="{left}" y="{y}" width="{w:.1f}" '
                f'height="{high}" rx="3"/>',
                f'<text x="{left + w + 8:.1f}" y="{y + 15}">{v:,.0f}</text>']
    out += [f'<text class="small" x="0" y="{bottom + 14}">'
            f"{escape(machine(top))}</text>",
            f'<text class="small" x="0" y="{bottom + 32}">dashed: only '
            "decoding, not a loader; medians; bench/run images</text>",
            "</svg>"]
    return "\n".join(out) + "\n"


def main():
    args = sys.argv[1:]
    if not 1 <= len(args) <= 2 or args[0] in ("-h", "--help"):
        print(__doc__.strip())
        return 0 if args and args[0] in ("-h", "--help") else 2
    docs = args[1] if len(args) > 1 else os.path.join(ROOT, "docs")
    try:
        top = load(args[0])
        files = {"benchmarks.md": markdown(top), "images.svg": svg(top)}
    except Refused as e:
        print(f"publish: {e}", file=sys.stderr)
        return 1
    for name, text in files.items():
        with open(os.path.join(docs, name), "w") as f:
            f.write(text)
        print(os.path.join(docs, name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
