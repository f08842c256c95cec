# SPDX-License-Identifier: Apache-2.0
"""What the tests of containers share: each sample of a pipeline by itself,
and writers of small files, made from the formats' descriptions alone."""
import json
import os
import pathlib
import struct

import millrace
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = (ROOT / os.environ.get("MILLRACE_DATA", "../shared/data")).resolve()


def shared(name):
    """A path in the shared data, or the test is skipped."""
    path = DATA / "containers" / name
    if not path.exists():
        pytest.skip(f"no shared data: {path}")
    return path


def samples(source, **options):
    """{index: {field: array}} of a source."""
    got = {}
    options.setdefault("order", "sequential")
    for batch in millrace.Loader(f"{source} | batch 7", **options):
        for k, index in enumerate(batch.indices):
            got[int(index)] = {name: one(batch, name, k) for name in batch}
    return got


def one(batch, name, k):
    offsets, shapes = batch.offsets(name), batch.shapes(name)
    if offsets is None:
        return np.array(batch[name][k])
    flat = batch[name][offsets[k]:offsets[k + 1]]
    return np.array(flat).reshape(shapes[k])


def fields(source):
    """{name: "u8[?]"}, in order, as explain says it."""
    line = millrace.explain(f"{source} | batch 7").splitlines()[1]
    line = line.split("->")[1].split(";")[0]
    return dict(part.strip().split(" ", 1) for part in line.split(","))


# ---- TFRecord ----

CRC = []
for i in range(256):
    for _ in range(8):
        i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
    CRC.append(i)


def masked(data):
    c = 0xFFFFFFFF
    for b in data:
        c = c >> 8 ^ CRC[(c ^ b) & 255]
    c ^= 0xFFFFFFFF
    return ((c >> 15 | c << 17) + 0xA282EAD8) & 0xFFFFFFFF


def record(data):
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked(length)) + data + \
        struct.pack("<I", masked(data))


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def message(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def feature(values, packed=True):
    """A list of bytes, floats or ints as a Feature."""
    if not values:
        return b""
    if isinstance(values[0], bytes):
        return message(1, b"".join(message(1, v) for v in values))
    if isinstance(values[0], float):
        each = [struct.pack("<f", v) for v in values]
        tag, number = b"\x0d", 2
    else:
        each = [varint(v) for v in values]
        tag, number = b"\x08", 3
    if packed:
        return message(number, message(1, b"".join(each)))
    return message(number, b"".join(tag + v for v in each))


def entries(features, make):
    return b"".join(message(1, message(1, k.encode()) + message(2, make(v)))
                    for k, v in features.items())


def example(features, packed=True):
    return message(1, entries(features, lambda v: feature(v, packed)))


def sequence(context, lists):
    def steps(values):
        return b"".join(message(1, feature(v)) for v in values)
    return message(1, entries(context, feature)) + \
        message(2, entries(lists, steps))


def take_varint(data, at):
    value = shift = 0
    while True:
        b = data[at]
        at += 1
        value |= (b & 127) << shift
        shift += 7
        if b < 128:
            return value, at


def parts(data):
    """(number, value) of each field of a message."""
    at = 0
    while at < len(data):
        tag, at = take_varint(data, at)
        if tag & 7 == 0:
            value, at = take_varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(tag & 7)
            if size is None:
                size, at = take_varint(data, at)
            value = data[at:at + size]
            at += size
        yield tag >> 3, tag & 7, value


def read_feature(data):
    """None, or a list of bytes, or an array."""
    for number, _, body in parts(data):
        values = [(w, v) for n, w, v in parts(body) if n == 1]
        if number == 1:
            return [v for _, v in values]
        if number == 2:
            return np.frombuffer(b"".join(v for _, v in values), "<f4")
        out = []
        for wire, v in values:
            at = 0
            if wire == 0:
                out.append(v)
            while wire == 2 and at < len(v):
                n, at = take_varint(v, at)
                out.append(n)
        return np.array(out, np.uint64).astype(np.int64)
    return None


def read_records(data):
    """Each tf.train.Example in the bytes of a TFRecord file, as a dict."""
    at = 0
    while at < len(data):
        size, = struct.unpack_from("<Q", data, at)
        assert masked(data[at:at + 8]) == \
            struct.unpack_from("<I", data, at + 8)[0]
        body = data[at + 12:at + 12 + size]
        out = {}
        for _, _, features in parts(body):
            for _, _, entry in parts(features):
                key, value = (dict((n, v) for n, _, v in parts(entry))
                              .get(k, b"") for k in (1, 2))
                out[key.decode()] = read_feature(value)
        yield out
        at += size + 16


# ---- MDS ----

def mds_encode(encoding, value):
    if encoding in ("bytes", "jpeg", "png", "pkl"):
        return value
    if encoding == "str":
        return value.encode()
    if encoding == "json":
        return json.dumps(value).encode()
    if encoding == "int":
        return np.int64(value).tobytes()
    if not encoding.startswith("ndarray"):
        return getattr(np, encoding)(value).tobytes()
    given = encoding.split(":")
    out = b""
    codes = {"uint8": 8, "int8": 9, "uint16": 16, "int16": 17, "float16": 18,
             "uint32": 32, "int32": 33, "float32": 34, "uint64": 64,
             "int64": 65, "float64": 66}
    if len(given) < 2:
        out += bytes([codes[value.dtype.name]])
    if len(given) < 3:
        width = 0 if max(value.shape) < 256 else 1
        out += bytes([len(value.shape) << 2 | width])
        out += np.array(value.shape, ["u1", "<u2"][width]).tobytes()
    return out + value.tobytes()


def mds_size(encoding):
    sizes = {"int": 8}
    if encoding in sizes:
        return sizes[encoding]
    given = encoding.split(":")
    if given[0] == "ndarray" and len(given) == 3:
        shape = [int(n) for n in given[2].split(",")]
        return int(np.prod(shape)) * np.dtype(given[1]).itemsize
    try:
        return np.dtype(encoding).itemsize if encoding[-1].isdigit() else None
    except TypeError:
        return None


def mds_shard(columns, rows):
    """The bytes of a shard; columns is {name: encoding}."""
    body = []
    for row in rows:
        values = [mds_encode(e, row[n]) for n, e in columns.items()]
        sizes = [len(v) for v, e in zip(values, columns.values())
                 if mds_size(e) is None]
        body.append(np.array(sizes, "<u4").tobytes() + b"".join(values))
    config = b"{}"
    at = 4 + 4 * (len(rows) + 1) + len(config)
    offsets = at + np.cumsum([0] + [len(b) for b in body])
    return np.array([len(rows)], "<u4").tobytes() + \
        offsets.astype("<u4").tobytes() + config + b"".join(body)


def mds_write(folder, columns, shards, pack=None, compression=None):
    """index.json and shards; pack(bytes) compresses them."""
    folder.mkdir(parents=True, exist_ok=True)
    index = []
    for i, rows in enumerate(shards):
        raw = mds_shard(columns, rows)
        name, ending = f"shard.{i:05}.mds", (compression or "").split(":")[0]
        info = {"basename": name, "bytes": len(raw), "hashes": {}}
        packed = None
        if pack:
            data = pack(raw)
            packed = {"basename": f"{name}.{ending}", "bytes": len(data),
                      "hashes": {}}
            (folder / packed["basename"]).write_bytes(data)
        else:
            (folder / name).write_bytes(raw)
        index.append({
            "column_names": list(columns),
            "column_encodings": list(columns.values()),
            "column_sizes": [mds_size(e) for e in columns.values()],
            "compression": compression, "format": "mds", "hashes": [],
            "raw_data": info, "samples": len(rows), "size_limit": 1 << 26,
            "version": 2, "zip_data": packed})
    (folder / "index.json").write_text(json.dumps(
        {"shards": index, "version": 2}))
    return folder


def mds_read(folder):
    """All samples of raw shards, as dicts of bytes and encodings."""
    index = json.loads((folder / "index.json").read_text())
    for shard in index["shards"]:
        data = (folder / shard["raw_data"]["basename"]).read_bytes()
        n, = struct.unpack_from("<I", data)
        assert n == shard["samples"]
        offsets = np.frombuffer(data, "<u4", n + 1, 4)
        for k in range(n):
            one_ = data[offsets[k]:offsets[k + 1]]
            sizes = list(shard["column_sizes"])
            at = 0
            for i, size in enumerate(sizes):
                if size is None:
                    sizes[i], = struct.unpack_from("<I", one_, at)
                    at += 4
            out = {}
            for name, encoding, size in zip(shard["column_names"],
                                            shard["column_encodings"], sizes):
                out[name] = (encoding, one_[at:at + size])
                at += size
            yield out


# ---- FFCV ----

def beton_write(path, names, types, rows, regions, row_dtype, args=None,
                version=2, page=1 << 21):
    """rows: a list of tuples of row_dtype, in which a place is an index into
    regions; regions: [(sample, bytes)]."""
    head = 24 + 1041 * len(names)
    table = np.zeros(len(rows), row_dtype)
    start = head + table.nbytes
    start = (start + page - 1) // page * page if page <= 1 << 16 else start
    places, at = [], start
    for _, data in regions:
        places.append(at)
        at += len(data)
    for i, row in enumerate(rows):
        table[i] = tuple(place(v, places) for v in row)
    out = struct.pack("<HHIQQ", version, len(names), page, len(rows), at)
    for name, kind in zip(names, types):
        out += bytes([kind]) + name.encode().ljust(16, b"\0")
        out += ((args or {}).get(name, b"")).ljust(1024, b"\0")
    out += table.tobytes()
    out = out.ljust(start, b"\0")
    out += b"".join(data for _, data in regions)
    for (sample, data), p in zip(regions, places):
        out += struct.pack("<QQQ", sample, p, len(data))
    path.write_bytes(out)
    return path


class Place(int):
    """An index into the regions, to become an offset."""


def place(value, places):
    if isinstance(value, tuple):
        return tuple(place(v, places) for v in value)
    return places[value] if isinstance(value, Place) else value
