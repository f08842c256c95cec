# SPDX-License-Identifier: Apache-2.0
"""Signals: calibrate, power, rms and windows against NumPy in float64, from
arrays and from HDF5 files of all kinds."""
import os
import pathlib
import subprocess

import millrace
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = (ROOT / os.environ.get("MILLRACE_BUILD", "build")).resolve()
DATA = (ROOT / os.environ.get("MILLRACE_DATA", "../shared/data")).resolve()
CREAM = sorted((DATA / "nilm" / "cream-layout").glob("*.hdf5")) or [None]
FLOATS = sorted((DATA / "nilm" / "float64").glob("*.h5")) or [None]
WINDOW, PERIOD = 64000, 128


def load(text, field="signal", **options):
    """All samples, in order."""
    options.setdefault("order", "sequential")
    return [np.array(x) for b in millrace.Loader(f"{text} | batch 3",
                                                 **options)
            for x in b.samples(field)]


# ---- the reference ----

def offset(v, period=PERIOD, how="centre"):
    """Of the voltage, per sample: means of periods, interpolated."""
    n = len(v)
    parts = [v[i:i + period] for i in range(0, n, period)]
    x = np.arange(n)
    if how == "no":
        return np.zeros(n)
    if how == "centre":
        at = [i * period + (len(p) - 1) / 2 for i, p in enumerate(parts)]
        return np.interp(x, at, [p.mean() for p in parts])
    # as the code published with CREAM: padded with 0, whole places
    at = np.linspace(1, n, len(parts), dtype=int)
    return np.interp(x + 1, at, [p.sum() / period for p in parts])


def calibrate(v, i, fv, fi, period=PERIOD, how="centre"):
    v, i = np.asarray(v, np.float64), np.asarray(i, np.float64)
    o = offset(v, period, how)
    return np.stack([(v - o) * fv, (i - o / np.sqrt(2)) * fi])


@np.errstate(invalid="ignore")
def power(x, period=PERIOD, kind="active"):
    n = x.shape[1] // period
    v, i = x[:, :n * period].astype(np.float64).reshape(2, n, period)
    p = (v * i).mean(1)
    irms = np.sqrt((i * i).mean(1))
    if kind == "reactive":
        s = np.sqrt((v * v).mean(1)) * irms
        p = np.sqrt(np.maximum(s * s - p * p, 0))
    return np.stack([p, irms, np.cumsum(irms - irms.mean())])


def near(got, want, scale=None, tolerance=1e-9):
    """Relative to the largest of a row: a CUSUM goes through 0."""
    want = np.asarray(want)
    assert got.dtype == np.float64 and got.shape == want.shape
    assert np.array_equal(np.isnan(got), np.isnan(want))
    if scale is None:
        scale = np.nanmax(np.abs(want), axis=-1, keepdims=True)
    wrong = np.abs(got - want) / np.maximum(scale, 1e-300)
    assert not np.nanmax(wrong, initial=0) > tolerance, np.nanmax(wrong)


def measured(n, seed=1):
    """Voltage and current as a meter gives them, with a drifting offset."""
    rng = np.random.default_rng(seed)
    t = np.arange(n) * 2 * np.pi / PERIOD
    drift = 30 + np.cumsum(rng.normal(0, 0.1, n))
    v = 5000 * np.sin(t) + drift + rng.normal(0, 5, n)
    i = 900 * np.sin(t - 0.7) + 200 * np.sin(3 * t) + drift / 2 ** 0.5
    return v.round().astype("<i2"), (i + rng.normal(0, 5, n)).round().astype(
        "<i2")


# ---- steps, from arrays ----

@pytest.mark.parametrize("kind", ["active", "reactive"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "i4"])
@pytest.mark.parametrize("n,period", [(64000, 128), (1000, 100), (999, 100),
                                      (50, 7), (9, 1), (13, 13)])
def test_power_is_numpys(tmp_path, kind, dtype, n, period):
    rng = np.random.default_rng(n + period)
    a = (rng.normal(0, 300, (3, 2, n)) + 50).astype(dtype)
    np.save(tmp_path / "a.npy", a)
    got = load(f"npy {tmp_path}/a.npy | power {period} kind={kind}", "data")
    assert len(got) == 3
    for g, x in zip(got, a):
        near(g, power(x, period, kind),
             # of a reactive power near 0 the digits are lost in S^2 - P^2
             np.abs(power(x, period)).max(1, keepdims=True)
             if period == 1 else None, 1e-7 if period == 1 else 1e-9)


@pytest.mark.parametrize("dtype", ["f8", "f4", "i2", "u1"])
@pytest.mark.parametrize("shape,period", [((1000,), 100), ((2, 999), 100),
                                          ((3, 2, 64), 8), ((5,), 1)])
def test_rms_is_numpys(tmp_path, dtype, shape, period):
    a = np.abs(np.random.default_rng(3).normal(0, 50, (2, *shape))
               ).astype(dtype)
    np.save(tmp_path / "a.npy", a)
    got = load(f"npy {tmp_path}/a.npy | rms {period}", "data")
    for g, x in zip(got, a):
        n = shape[-1] // period
        x = x[..., :n * period].astype(float).reshape(*shape[:-1], n, period)
        near(g, np.sqrt((x * x).mean(-1)))


def test_a_resistor_has_no_reactive_power_and_never_a_nan(tmp_path):
    v = np.random.default_rng(4).normal(0, 230, (20, WINDOW))
    np.save(tmp_path / "a.npy", np.stack([v, v / 7], 1))
    for g in load(f"npy {tmp_path}/a.npy | power kind=reactive", "data"):
        assert np.isfinite(g).all()
        assert (g[0] < 1e-6 * 230 * 230 / 7).all()


def test_the_same_bits_without_avx2(tmp_path):
    v, i = measured(10 * WINDOW)
    np.save(tmp_path / "a.npy",
            np.stack([v, i], 0).reshape(2, 10, WINDOW).swapaxes(0, 1).copy())
    words = [str(BUILD / "millrace"), "run", "--digest", "--json",
             f"npy {tmp_path}/a.npy | power kind=reactive | batch 2"]
    out = [subprocess.run(words, env={**os.environ, **e}, text=True,
                          stdout=subprocess.PIPE, check=True).stdout
           for e in ({}, {"MILLRACE_SIMD": "none"})]
    assert len({o.split('"digest": "')[1][:16] for o in out}) == 1


def test_nans_stay_in_their_period_but_for_the_sum(tmp_path):
    a = np.random.default_rng(5).normal(0, 9, (1, 2, 1280))
    a[0, 1, 300] = np.nan
    a[0, 0, 700] = np.inf
    np.save(tmp_path / "a.npy", a)
    for kind in ("active", "reactive"):
        g, = load(f"npy {tmp_path}/a.npy | power kind={kind}", "data")
        want = power(a[0], kind=kind)
        assert np.isnan(g[0]).nonzero()[0].tolist() == (
            [2] if kind == "active" else [2, 5])
        assert np.isnan(g[1]).nonzero()[0].tolist() == [2]
        assert np.isnan(g[2]).all()  # its mean is none
        ok = [0, 1, 3, 4, 6, 7, 8, 9]
        near(g[:2, ok], want[:2, ok])


# ---- windows ----

@pytest.mark.parametrize("at,first", [("", 0), ("at=0", 0), ("at=60", 60),
                                      ("at=-1", 30)])
def test_a_given_window(tmp_path, at, first):
    a = np.arange(600, dtype="<i2").reshape(2, 3, 100)
    np.save(tmp_path / "a.npy", a)
    got = load(f"npy {tmp_path}/a.npy | window 40 {at}", "data")
    assert np.array_equal(got, a[..., first:first + 40])


@pytest.mark.parametrize("step", ["window 120 pad=yes",
                                  "random_window 120 pad=yes",
                                  "window 120 at=-1 pad=yes"])
def test_short_signals_are_filled_up_when_asked(tmp_path, step):
    a = np.arange(1, 101, dtype="<f4").reshape(1, 100)
    np.save(tmp_path / "a.npy", a)
    got, = load(f"npy {tmp_path}/a.npy | {step}", "data")
    assert np.array_equal(got, np.pad(a[0], (0, 20)))


def test_a_window_at_the_end_is_filled_up_when_asked(tmp_path):
    a = np.arange(1, 101, dtype="<f4").reshape(1, 100)
    np.save(tmp_path / "a.npy", a)
    for at in (90, 100, 1000):
        got, = load(f"npy {tmp_path}/a.npy | window 20 at={at} pad=yes",
                    "data")
        want = np.pad(a[0][at:at + 20], (0, 20 - len(a[0][at:at + 20])))
        assert np.array_equal(got, want)


def test_random_windows_are_all_equally_likely_and_repeatable(tmp_path):
    np.save(tmp_path / "a.npy", np.tile(np.arange(10, dtype="<i4"), (4000, 1)))
    text = f"npy {tmp_path}/a.npy | random_window 8"
    one = load(text, "data", seed=1)
    again = load(text, "data", seed=1, threads=2)
    assert np.array_equal(one, again)
    first = np.array([x[0] for x in one])
    assert all(np.array_equal(x, np.arange(x[0], x[0] + 8)) for x in one)
    counts = np.bincount(first, minlength=3)
    assert len(counts) == 3 and counts.min() > 1200
    assert not np.array_equal(one, load(text, "data", seed=2))


@pytest.mark.parametrize("text,says", [
    ("window 101", ["100 samples", "101", "pad=yes"]),
    ("random_window 101", ["100 samples", "101", "pad=yes"]),
    ("window 20 at=90", ["from sample 90", "100", "pad=yes"]),
    ("rms 101", ["100 samples", "period of 101", "period="]),
    ("power 10", ["[2,N]", "calibrate"]),
    ("calibrate", ["no field 'voltage'", "voltage="])])
def test_refusals_say_what_to_do(tmp_path, text, says):
    np.save(tmp_path / "a.npy", np.zeros((3, 100)))
    with pytest.raises(Exception) as e:
        load(f"npy {tmp_path}/a.npy | {text}", "data")
    for w in says:
        assert w in str(e.value), str(e.value)


# ---- HDF5, through the whole pipeline ----

h5py = pytest.importorskip("h5py", reason="h5py is not installed")
FACTORS = 0.047, 0.0062


@pytest.fixture(autouse=True)
def available():
    try:
        millrace.Loader("hdf5 /no/such | batch 1")
    except Exception as e:
        if "not in this build" in str(e):
            pytest.skip(str(e))


def write(path, v, i, factors=FACTORS, **storage):
    with h5py.File(path, "w") as f:
        for name, x, k in zip(("voltage", "current1"), (v, i), factors or
                              (None, None)):
            d = f.create_dataset(name, data=x, **storage)
            if k is not None:
                d.attrs["calibration_factor"] = k


def source(path, window=WINDOW):
    return (f"hdf5 '{path}' dataset=voltage,current1 window={window} "
            "attributes=calibration_factor")


def expected(v, i, window=WINDOW, **kw):
    return [calibrate(v[k:k + window], i[k:k + window], *FACTORS, **kw)
            for k in range(0, len(v) - window + 1, window)]


@pytest.mark.parametrize("stored", ["<i2", ">i2", "<f4", ">f4", "<f8", ">f8",
                                    "<i4"])
@pytest.mark.parametrize("storage", [
    {}, dict(compression="gzip"), dict(compression="gzip", shuffle=True),
    dict(compression="gzip", shuffle=True, fletcher32=True),
    dict(fletcher32=True, chunks=(1000,)), dict(compression="lzf")])
def test_every_type_and_storage_gives_the_same_power(tmp_path, stored,
                                                     storage):
    v, i = measured(30000)
    write(tmp_path / "x.h5", v.astype(stored), i.astype(stored), **storage)
    text = source(tmp_path / "x.h5", 6400)
    want = expected(v, i, 6400)
    got = load(f"{text} | calibrate")
    assert len(got) == len(want) == 4  # what does not fill a window is left
    for g, w in zip(got, want):
        near(g, w)
    for kind in ("active", "reactive"):
        for g, w in zip(load(f"{text} | calibrate | power kind={kind}",
                             threads=2), want):
            near(g, power(w, kind=kind))


@pytest.mark.parametrize("how", ["centre", "spread", "no"])
@pytest.mark.parametrize("n", [1, 2, 127, 128, 129, 200, 6400, 6500, 12801])
@pytest.mark.parametrize("stored", ["<i2", "<f8"])
def test_offsets_for_any_length(tmp_path, how, n, stored):
    v, i = measured(n)
    write(tmp_path / "x.h5", v.astype(stored), i.astype(stored))
    got = load(source(tmp_path / "x.h5", 0) + f" | calibrate offset={how}")
    near(got[0], calibrate(v, i, *FACTORS, how=how))


def test_whole_files_of_different_lengths(tmp_path):
    parts = [measured(n, n) for n in (700, 1300, 128)]
    for k, (v, i) in enumerate(parts):
        write(tmp_path / f"{k}.h5", v, i)
    loader = millrace.Loader(source(tmp_path / "?.h5", 0) +
                             " | calibrate | power | batch 3",
                             order="sequential")
    b, = loader
    for got, (v, i) in zip(b.samples("signal"), parts):
        near(np.array(got), power(calibrate(v, i, *FACTORS)))


def test_other_names_and_factors_by_hand(tmp_path):
    v, i = measured(6400)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["u"], f["a"], f["current9"] = v, i, np.zeros(6400, "<i2")
    got = load(f"hdf5 {tmp_path}/x.h5 a,u,current9 window=6400 | calibrate "
               "voltage=u current=a scale=0.047,0.0062 period=64")
    near(got[0], calibrate(v, i, *FACTORS, period=64))


def test_the_other_fields_stay(tmp_path):
    v, i = measured(1280)
    with h5py.File(tmp_path / "x.h5", "w") as f:
        f["label"] = np.arange(1280)
        f["voltage"], f["current"] = v, i
    b, = millrace.Loader(f"hdf5 {tmp_path}/x.h5 label,voltage,current "
                         "window=1280 | calibrate scale=1,1 | rms field=signal "
                         "| batch 1")
    assert set(b) == {"label", "signal"}
    assert b["signal"].shape == (1, 2, 10) and b["label"].shape == (1, 1280)


def test_prepared_sets_and_any_number_of_threads_give_the_same(tmp_path):
    v, i = measured(10 * 6400)
    write(tmp_path / "x.h5", v, i, compression="gzip", shuffle=True)
    text = source(tmp_path / "x.h5", 6400) + " | calibrate | power"
    want = load(text)
    assert np.array_equal(want, load(text, threads=4))
    for until in ("hdf5", "calibrate", "power"):
        out = tmp_path / until
        subprocess.run([str(BUILD / "millrace"), "prepare", text, "--until",
                        until, "--out", str(out)], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rest = {"hdf5": " | calibrate | power", "calibrate": " | power",
                "power": ""}[until]
        assert np.array_equal(want, load(f"records {out}{rest}"))


# ---- what is wrong with files ----

def refused(text, *words):
    with pytest.raises(Exception) as e:
        load(text)
    for w in words:
        assert w in str(e.value), str(e.value)


def test_missing_attributes_name_the_remedy(tmp_path):
    write(tmp_path / "x.h5", *measured(1280), factors=None)
    refused(source(tmp_path / "x.h5", 1280) + " | calibrate", "x.h5",
            "voltage", "attribute 'calibration_factor'", "attrs[",
            "attributes=")
    refused(f"hdf5 {tmp_path}/x.h5 voltage,current1 window=1280 | calibrate",
            "no field 'voltage_calibration_factor'",
            "attributes=calibration_factor", "scale=VOLTS,AMPERES")
    refused(f"hdf5 {tmp_path}/x.h5 voltage window=1280 | calibrate",
            "no field 'current'", "current=", "there are: voltage")
    refused(f"hdf5 {tmp_path}/x.h5 voltage,current1 | calibrate scale=1,1",
            "i16", "window=N")
    refused(f"hdf5 {tmp_path}/x.h5 voltage,current1 window=9 | calibrate "
            "scale=1", "scale=", "1 numbers", "two")


def test_windows_shorter_than_a_period_are_refused(tmp_path):
    write(tmp_path / "x.h5", *measured(1280))
    refused(source(tmp_path / "x.h5", 100) + " | calibrate | power",
            "100 samples", "period of 128", "period=")
    write(tmp_path / "y.h5", *measured(100))
    refused(source(tmp_path / "?.h5", 0) + " | calibrate | power",
            "100 samples", "period of 128")


@pytest.mark.parametrize("name,bytes_", [("empty", b""), ("other", b"x" * 999)])
def test_files_that_are_none_are_named(tmp_path, name, bytes_):
    (tmp_path / f"{name}.h5").write_bytes(bytes_)
    refused(source(tmp_path / f"{name}.h5") + " | calibrate", f"{name}.h5")


def test_a_file_without_rows_is_told(tmp_path):
    write(tmp_path / "x.h5", np.zeros(0, "<i2"), np.zeros(0, "<i2"))
    refused(source(tmp_path / "x.h5") + " | calibrate", "x.h5", "no samples")


def test_a_file_cut_short_is_named(tmp_path):
    write(tmp_path / "x.h5", *measured(64000), compression="gzip",
          chunks=(6400,))
    whole = (tmp_path / "x.h5").read_bytes()
    for n in (100, 3000, len(whole) // 2, len(whole) - 1):
        (tmp_path / "x.h5").write_bytes(whole[:n])
        refused(source(tmp_path / "x.h5", 6400) + " | calibrate | power",
                "x.h5")


def test_only_the_window_in_a_damaged_chunk_is_lost(tmp_path):
    v, i = measured(10 * 6400)
    write(tmp_path / "x.h5", v, i, compression="gzip", shuffle=True,
          chunks=(6400,))
    with h5py.File(tmp_path / "x.h5") as f:
        info = f["current1"].id.get_chunk_info(7)
    with open(tmp_path / "x.h5", "r+b") as f:
        f.seek(info.byte_offset + info.size // 2)
        f.write(b"\xff" * 40)
    got = load(source(tmp_path / "x.h5", 6400) + " | calibrate | power",
               on_error="skip", threads=2)
    want = expected(v, i, 6400)
    assert len(got) == 9
    for g, w in zip(got, want[:7] + want[8:]):
        near(g, power(w))


def test_nans_of_the_file_come_out_as_numpys(tmp_path):
    v, i = (x.astype("<f8") for x in measured(1280))
    v[200], i[900] = np.nan, np.nan
    write(tmp_path / "x.h5", v, i)
    text = source(tmp_path / "x.h5", 1280) + " | calibrate"
    want = calibrate(v, i, *FACTORS)
    near(load(text)[0], want)
    got = load(text + " | power")[0]
    assert np.array_equal(np.isnan(got), np.isnan(power(want)))


# ---- real files and made ones ----

@pytest.mark.skipif(CREAM == [None], reason="no data at ../shared/data/nilm")
@pytest.mark.parametrize("path", CREAM, ids=lambda p: p and p.stem[:12])
def test_recordings_in_creams_layout(path):
    with h5py.File(path) as f:
        v, i = f["voltage"][...], f["current1"][...]
        fv, fi = (f[n].attrs["calibration_factor"] for n in
                  ("voltage", "current1"))
    for kind in ("active", "reactive"):
        got = load(source(path) + f" | calibrate | power kind={kind}",
                   threads=2)
        assert len(got) == len(v) // WINDOW
        for k, g in enumerate(got):
            at = slice(k * WINDOW, (k + 1) * WINDOW)
            near(g, power(calibrate(v[at], i[at], fv, fi), kind=kind))
    # the whole file at once, as the published code calibrates
    got, = load(source(path, 0) + " | calibrate offset=spread")
    near(got, calibrate(v, i, fv, fi, how="spread"))


@pytest.mark.skipif(FLOATS == [None], reason="no data at ../shared/data/nilm")
@pytest.mark.parametrize("path", FLOATS, ids=lambda p: p and p.stem[:12])
def test_recordings_in_float64(path):
    with h5py.File(path) as f:
        v, i = f["voltage"][...], f["current"][...]
    got = load(f"hdf5 '{path}' voltage,current window={WINDOW} | calibrate "
               "scale=1,1 | power")
    for k, g in enumerate(got):
        at = slice(k * WINDOW, (k + 1) * WINDOW)
        near(g, power(calibrate(v[at], i[at], 1, 1)))


def test_made_data_has_creams_layout(tmp_path):
    subprocess.run([str(BUILD / "millrace"), "synth", "nilm", str(tmp_path),
                    "--count", "5", "--duration", "25s"], check=True,
                   stdout=subprocess.DEVNULL)
    files = sorted(tmp_path.iterdir())
    assert [f.name for f in files] == [f"nilm-000000{k}.hdf5" for k in
                                       (1, 2, 3)]
    samples = []
    for k, path in enumerate(files):
        with h5py.File(path) as f:
            assert f.attrs["frequency"] == 6400
            x = []
            for name in ("voltage", "current1"):
                d = f[name]
                assert d.dtype == "<i2" and d.compression == "gzip"
                assert d.shuffle and d.chunks == (WINDOW,)
                assert d.shape == ((64000,) if k == 2 else (160000,))
                x.append((d[...], d.attrs["calibration_factor"]))
        for at in range(0, len(x[0][0]) - WINDOW + 1, WINDOW):
            samples.append(calibrate(x[0][0][at:at + WINDOW],
                                     x[1][0][at:at + WINDOW],
                                     x[0][1], x[1][1]))
    assert len(samples) == 5
    got = load(source(tmp_path / "*.hdf5") + " | calibrate | power")
    for g, x in zip(got, samples):
        near(g, power(x))
        assert 220 < np.sqrt((x[0] ** 2).mean()) < 240
