# SPDX-License-Identifier: Apache-2.0
"""from_dataset() beside torchvision itself, on the same image folders."""
import gc
import json
import os
import pickle

import millrace
import numpy as np
import pytest
from conftest import ROOT

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("torchvision", reason="torchvision is not installed")

from PIL import Image                                           # noqa: E402
from torch.utils.data import Subset                             # noqa: E402
from torchvision import datasets, transforms as T               # noqa: E402
from torchvision.transforms import InterpolationMode as Mode    # noqa: E402

from millrace.torch import (ConversionError, from_dataset,      # noqa: E402
                            pipeline_text)

DATA = ROOT / os.environ.get("MILLRACE_DATA", "../shared/data")
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
ENDINGS = "ext=jpg,jpeg,png,ppm,bmp,pgm,tif,tiff,webp"


def picture(h, w, seed=0, bands=3):
    """Something between a photo and noise."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:h, 0:w]
    waves = [np.sin(x / rng.uniform(3, 40) + y / rng.uniform(3, 40) + i)
             for i in range(bands)]
    a = 128 + 80 * np.stack(waves, axis=-1) + rng.normal(0, 12, (h, w, bands))
    return np.clip(a, 0, 255).astype(np.uint8)


def save(path, h, w, seed=0, mode="RGB", **how):
    path.parent.mkdir(parents=True, exist_ok=True)
    bands = {"L": 1, "RGBA": 4, "LA": 2}.get(mode, 3)
    image = Image.fromarray(picture(h, w, seed, bands).squeeze(),
                            None if mode != "P" else "RGB")
    if mode in ("P", "CMYK"):
        image = image.convert(mode)
    image.save(path, **how)


@pytest.fixture
def photos(tmp_path):
    """Images of several kinds and sizes, nested folders, odd names."""
    root = tmp_path / "photos"
    kinds = [
        ("ant/a.jpg", 90, 120, "RGB", {"quality": 90}),
        ("ant/B.JPG", 64, 64, "RGB", {"subsampling": 0}),
        ("ant/more/c.jpeg", 131, 77, "RGB", {"progressive": True}),
        ("ant/more/deep/d.png", 57, 200, "RGB", {}),
        ("ant/more d/e.png", 40, 33, "RGB", {}),
        ("bee/grey.jpg", 100, 81, "L", {}),
        ("bee/alpha.png", 70, 91, "RGBA", {}),
        ("bee/la.png", 66, 50, "LA", {}),
        ("bee/palette.png", 83, 60, "P", {}),
        ("bee/grey.png", 50, 71, "L", {}),
        ("it's a \"cat\" | # x=1, y/with 'space'.jpg", 99, 99, "RGB", {}),
        ("it's a \"cat\" | # x=1, y/\u00e4 \"q\", #.jpg", 48, 99, "RGB", {}),
    ]
    for seed, (name, h, w, mode, how) in enumerate(kinds):
        save(root / name, h, w, seed, mode, **how)
    (root / "ant" / "notes.txt").write_text("no image")
    (root / "readme.png").write_text("belongs to no class")
    return root


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    monkeypatch.delenv("WORLD_SIZE", raising=False)


def to_size(*more, size=32):
    return T.Compose([T.Resize(size), T.CenterCrop(size), *more])


def names(dataset, text, **options):
    """(path, label) of all samples, by the pipeline's source alone."""
    source = text.split(" | decode_image")[0]
    loader = millrace.Loader(f"{source} | batch 5", order="sequential",
                             **options)
    return [(os.path.join(dataset.root, key), label) for b in loader
            for key, label in zip(b.sample_keys, b["label"].tolist())]


def close(got, want, std=1.0):
    """As near as the project promises: 0.1/255 on average, 2/255 at most."""
    assert got.dtype == want.dtype and got.shape == want.shape
    unit = 1 if want.dtype == torch.uint8 else 1 / 255
    scale = torch.as_tensor(std, dtype=torch.float64).view(1, -1, 1, 1)
    off = (got.double() - want.double()).abs() * scale / unit
    assert off.max() <= 2 + 1e-4 and off.mean() <= 0.1, (off.max(), off.mean())


def same(dataset, std=1.0, batch_size=5, **options):
    """All batches beside those of torch's DataLoader; returns the loader."""
    ours = from_dataset(dataset, batch_size=batch_size, **options)
    want = torch.utils.data.DataLoader(dataset, batch_size=batch_size)
    assert len(ours) == len(want)
    for a, b in zip(ours, want, strict=True):
        assert type(a) is type(b) is list and len(a) == 2
        assert a[1].dtype == torch.int64 and torch.equal(a[1], b[1])
        close(a[0], b[0], std)
    return ours


# ---- pipelines ----

@pytest.mark.parametrize("transform, steps", [
    ([T.ToTensor()], "normalize"),
    ([T.PILToTensor()], "to_chw"),
    ([T.PILToTensor(), T.ConvertImageDtype(torch.float)], "normalize"),
    ([T.PILToTensor(), T.ConvertImageDtype(torch.uint8)], "to_chw"),
    ([T.Resize(9), T.ToTensor()], "resize 9 | normalize"),
    ([T.Resize([9]), T.ToTensor()], "resize 9 | normalize"),
    ([T.Resize((9, 9)), T.ToTensor()], "resize 9x9 | normalize"),
    ([T.Resize((8, 9), Mode.BICUBIC), T.ToTensor()],
     "resize 8x9 filter=bicubic | normalize"),
    ([T.Resize(8, Mode.BOX), T.ToTensor()],
     "resize 8 filter=area | normalize"),
    ([T.CenterCrop(8), T.CenterCrop((6, 7)), T.CenterCrop([5]),
      T.ToTensor()],
     "center_crop 8 | center_crop 6x7 | center_crop 5 | normalize"),
    ([T.RandomCrop(8), T.ToTensor()], "random_crop 8 | normalize"),
    ([T.RandomCrop((8, 9), padding=4), T.ToTensor()],
     "random_crop 8x9 padding=4 | normalize"),
    ([T.RandomCrop(8, (1, 2, 3, 4), fill=(0, 0, 0)), T.ToTensor()],
     "random_crop 8 padding=1,2,3,4 | normalize"),
    ([T.RandomCrop(8, padding_mode="edge"), T.ToTensor()],
     "random_crop 8 | normalize"),
    ([T.RandomResizedCrop(8), T.ToTensor()],
     "random_resized_crop 8 scale=0.08,1 ratio=0.75,1.3333333333333333 | "
     "normalize"),
    ([T.RandomResizedCrop((8, 9), (0.5, 0.9), (1, 2), Mode.BICUBIC),
      T.ToTensor()],
     "random_resized_crop 8x9 scale=0.5,0.9 ratio=1,2 filter=bicubic | "
     "normalize"),
    ([T.RandomHorizontalFlip(), T.ToTensor(), T.RandomHorizontalFlip(0.1)],
     "flip p=0.5 | flip p=0.1 | normalize"),
    ([T.Grayscale(), T.ToTensor()], "greyscale channels=1 | normalize"),
    ([T.Grayscale(3), T.PILToTensor()], "greyscale channels=3 | to_chw"),
    ([T.ColorJitter(0.4, (0.5, 2), hue=0.1), T.ToTensor()],
     "color_jitter brightness=0.6,1.4 contrast=0.5,2 hue=-0.1,0.1 | "
     "normalize"),
    ([T.ColorJitter(), T.ToTensor()], "normalize"),
    ([T.ToTensor(), T.Normalize(MEAN, STD, inplace=True)],
     "normalize mean=0.485,0.456,0.406 std=0.229,0.224,0.225"),
    ([T.ToTensor(), T.Normalize(0.5, 0.25)], "normalize mean=0.5 std=0.25"),
    ([T.ToTensor(), T.Normalize([0.5], [0.25]),
      T.ConvertImageDtype(torch.float32), T.Normalize((1, 2, 3), (4,))],
     "normalize mean=0.75,1,1.25 std=1,1,1"),
    ([T.Compose([T.Resize(9), T.Compose([T.CenterCrop(8)])]),
      torch.nn.Sequential(T.RandomHorizontalFlip(), T.ColorJitter(0.5)),
      T.ToTensor()],
     "resize 9 | center_crop 8 | flip p=0.5 | "
     "color_jitter brightness=0.5,1.5 | normalize"),
])
def test_transforms_become_steps(tmp_path, transform, steps):
    save(tmp_path / "x" / "1.jpg", 8, 8)
    data = datasets.ImageFolder(tmp_path, T.Compose(transform))
    assert pipeline_text(data, 16) == (
        f"files {tmp_path} {ENDINGS} | decode_image exif=no | {steps} | "
        "batch 16")


def test_a_single_transform_needs_no_compose(tmp_path):
    save(tmp_path / "x" / "1.jpg", 8, 8)
    data = datasets.ImageFolder(tmp_path, T.ToTensor())
    assert pipeline_text(data, 2, drop_last=True, fast=True).endswith(
        " | decode_image exif=no fast=yes | normalize | batch 2 drop_last=yes")


def test_the_transforms_of_a_models_weights_are_known(tmp_path):
    models = pytest.importorskip("torchvision.models")
    save(tmp_path / "x" / "1.jpg", 8, 8)
    weights = models.ResNet50_Weights.IMAGENET1K_V2
    data = datasets.ImageFolder(tmp_path, weights.transforms())
    assert pipeline_text(data).endswith(
        "| resize 232 | center_crop 224 | normalize mean=0.485,0.456,0.406 "
        "std=0.229,0.224,0.225 | batch 1")


# ---- what has no counterpart ----

class Mine(T.Resize):
    pass


class Second:
    __module__ = "torchvision.transforms.v2._geometry"


class Shorter(datasets.ImageFolder):
    def __len__(self):
        return 0


class Other(datasets.ImageFolder):
    def __getitem__(self, i):
        return super().__getitem__(i)[0]


@pytest.mark.parametrize("transform, says", [
    ([T.Resize(8), T.RandomRotation(9), T.ToTensor()],
     "RandomRotation (transform 2): has no counterpart; do it to batches "
     "after loading, or keep torch's DataLoader for this data set"),
    ([T.Compose([T.Resize(8)]), T.Lambda(abs), T.ToTensor()],
     "Lambda (transform 2)"),
    ([Mine(8), T.ToTensor()], "Mine (transform 1): may do other things than "
     "Resize, of which it is a subclass"),
    ([Second(), T.ToTensor()], "Second (transform 1): is of "
     "torchvision.transforms.v2, which is not converted; take the one of"),
    ([T.Resize(8, max_size=9), T.ToTensor()],
     "Resize (transform 1): max_size=9: has no counterpart"),
    ([T.Resize(8, Mode.NEAREST), T.ToTensor()],
     "Resize (transform 1): interpolation='NEAREST': there are BILINEAR"),
    ([T.RandomResizedCrop(8, interpolation=Mode.LANCZOS), T.ToTensor()],
     "RandomResizedCrop (transform 1): interpolation='LANCZOS'"),
    ([T.RandomCrop(8, padding=1, padding_mode="reflect"), T.ToTensor()],
     "RandomCrop (transform 1): padding_mode='reflect': there is 'constant'"),
    ([T.RandomCrop(8, padding=1, fill=7), T.ToTensor()],
     "RandomCrop (transform 1): fill=7: there is 0"),
    ([T.RandomCrop(8, padding=-1), T.ToTensor()], "padding=-1"),
    ([T.RandomCrop(8, pad_if_needed=True), T.ToTensor()],
     "RandomCrop (transform 1): pad_if_needed=True: has no counterpart; "
     "Resize the images"),
    ([T.ToTensor(), T.Resize(8)], "Resize (transform 2): works on a tensor "
     "there, with other rounding than on an image; move it before ToTensor"),
    ([T.PILToTensor(), T.Grayscale()], "Grayscale (transform 2): works on a"),
    ([T.ToTensor(), T.RandomErasing()], "RandomErasing (transform 2): has no"),
    ([T.ToTensor(), T.ToTensor()], "ToTensor (transform 2): gets a tensor"),
    ([T.Normalize(0.5, 0.5), T.ToTensor()],
     "Normalize (transform 1): gets a PIL image, not a tensor of floats; "
     "put ToTensor before it"),
    ([T.PILToTensor(), T.Normalize(0.5, 0.5)],
     "Normalize (transform 2): gets a u8 tensor"),
    ([T.Grayscale(), T.ToTensor(), T.Normalize(MEAN, STD)],
     "Normalize (transform 3): has 3 means and 3 deviations for 1 channels"),
    ([T.ToTensor(), T.Normalize(0.5, 0.0)], "division by zero"),
    ([T.PILToTensor(), T.ConvertImageDtype(torch.float16)],
     "ConvertImageDtype (transform 2): dtype=torch.float16: there is "
     "torch.float32; convert the batches after loading"),
    ([T.ToTensor(), T.ConvertImageDtype(torch.uint8)], "dtype=torch.uint8"),
    ([T.ConvertImageDtype(torch.float), T.ToTensor()], "gets a PIL image"),
    ([T.Resize(8)], "the transforms end with a PIL image, which no batch"),
    ([], "the transforms end with a PIL image"),
])
def test_what_has_no_counterpart_is_named(tmp_path, transform, says):
    save(tmp_path / "x" / "1.jpg", 8, 8)
    data = datasets.ImageFolder(tmp_path, T.Compose(transform))
    with pytest.raises(ConversionError) as e:
        from_dataset(data)
    assert len(e.value.problems) == 1 and says in str(e.value)
    assert isinstance(e.value, ValueError)


def test_all_that_has_no_counterpart_is_named_at_once(tmp_path):
    save(tmp_path / "x" / "1.jpg", 8, 8)
    data = datasets.ImageFolder(
        tmp_path, T.Compose([T.Pad(3), T.Resize(8, max_size=9),
                             T.Normalize(0, 1)]), target_transform=abs)
    with pytest.raises(ConversionError) as e:
        from_dataset(data)
    assert [p.split("=")[0] for p in e.value.problems] == [
        "target_transform", "Pad (transform 1): has no counterpart; do it to "
        "batches after loading, or keep torch's DataLoader for this data set",
        "Resize (transform 2): max_size"]
    copy = pickle.loads(pickle.dumps(e.value))
    assert copy.problems == e.value.problems and str(copy) == str(e.value)


def test_the_default_type_must_be_float32(tmp_path):
    save(tmp_path / "x" / "1.jpg", 8, 8)
    data = datasets.ImageFolder(tmp_path, T.ToTensor())
    torch.set_default_dtype(torch.float64)
    try:
        with pytest.raises(ConversionError, match="torch.float64"):
            from_dataset(data)
    finally:
        torch.set_default_dtype(torch.float32)


def test_data_sets_that_are_more_than_a_folder_are_named(tmp_path):
    save(tmp_path / "x" / "1.jpg", 8, 8)
    folder = datasets.ImageFolder
    for data, says in [
            (folder(tmp_path, T.ToTensor(), target_transform=str),
             "target_transform=<class 'str'>: cannot be converted; do it to "
             "the labels of the batches"),
            (folder(tmp_path, T.ToTensor(), loader=Image.open),
             "a reader of its own"),
            (Other(tmp_path, T.ToTensor()), "Other gets its samples in a way "
             r"of its own \(__getitem__\)"),
            (Subset(Other(tmp_path, T.ToTensor()), [0]), "Other gets its"),
            (Shorter(tmp_path, T.ToTensor()), "Shorter has a length of its "
             "own"),
            (datasets.FakeData(3), "FakeData is no ImageFolder"),
            (Subset(folder(tmp_path, T.ToTensor()), []), "is empty")]:
        with pytest.raises(ConversionError, match=says):
            from_dataset(data)


def test_files_that_cannot_be_decoded_are_named(tmp_path):
    save(tmp_path / "x" / "1.jpg", 8, 8)
    save(tmp_path / "x" / "2.BMP", 8, 8)
    data = datasets.ImageFolder(tmp_path, T.ToTensor())
    with pytest.raises(ConversionError, match=r"1 of 2 files are no JPEG or "
                                              r"PNG, such as '.*2\.BMP'"):
        from_dataset(data)


# ---- which samples, in which order ----

def test_a_plain_folder_is_the_source_files(photos, monkeypatch):
    data = datasets.ImageFolder(photos, T.ToTensor())
    text = pipeline_text(data, 4)
    assert text.startswith(f"files {photos} {ENDINGS} | ")
    assert names(data, text) == data.samples
    monkeypatch.chdir(photos.parent)
    for root in "photos", "photos/", "./photos", "photos/../photos":
        data = datasets.ImageFolder(root, T.ToTensor())
        text = pipeline_text(data, 4)
        assert text.startswith(f"files {root} ext=")
        assert names(data, text) == data.samples


@pytest.mark.parametrize("name", ["ant/.hidden.jpg", ".Ant/1.jpg"])
def test_a_folder_that_files_would_list_otherwise_gets_a_list(
        photos, name, tmp_path):
    save(photos / name, 8, 8)
    data = datasets.ImageFolder(photos, T.ToTensor())
    with pytest.raises(ConversionError, match="list_file=PATH"):
        pipeline_text(data)
    text = pipeline_text(data, list_file=tmp_path / "list.csv")
    assert text.startswith(f"list {tmp_path}/list.csv root={photos} | ")
    assert names(data, text) == data.samples


@pytest.mark.parametrize("name", ["ant/.hidden.jpg", "ant/.more/1.jpg",
                                  "ant/odd.ending"])
def test_as_many_samples_need_not_be_the_same_ones(photos, name, tmp_path):
    """`files` leaves one out that is a sample, and has one that is none."""
    save(photos / name, 8, 8, format="JPEG")
    data = datasets.ImageFolder(photos, T.ToTensor())
    listed = len(names(data, f"files '{photos}' {ENDINGS} | decode_image"))
    path = str(photos / name)
    # in the right order, so that only the name can tell
    data.samples = sorted({*data.samples, (path, 0)} - {data.samples[-1]},
                          key=lambda s: os.path.split(s[0]))
    assert len(data.samples) == listed
    with pytest.raises(ConversionError, match="list_file"):
        pipeline_text(data)
    text = pipeline_text(data, list_file=tmp_path / "list.csv")
    assert names(data, text) == data.samples


@pytest.mark.parametrize("change", [
    lambda d: d.samples.pop(),
    lambda d: d.samples.reverse(),
    lambda d: d.samples.append(d.samples[0]),
    lambda d: d.samples.__setitem__(0, (d.samples[0][0], 2)),
    lambda d: d.samples.__setitem__(1, (d.samples[1][0], 2)),
    lambda d: d.samples.__setitem__(slice(None), [
        (p, 2 - t) for p, t in d.samples]),
    lambda d: save(d.root / "ant" / "new.jpg", 8, 8),
])
def test_the_samples_of_the_data_set_are_the_truth(photos, change, tmp_path):
    data = datasets.ImageFolder(photos, T.ToTensor())
    change(data)
    text = pipeline_text(data, list_file=tmp_path / "list.csv")
    assert names(data, text) == data.samples
    with pytest.raises(ConversionError, match="list_file"):
        pipeline_text(data)


def test_is_valid_file_and_subsets_get_a_list(photos, tmp_path):
    path = tmp_path / "a 'list'.csv"
    folder = datasets.ImageFolder(photos, T.ToTensor(),
                                  is_valid_file=lambda p: "e" in p)
    assert names(folder, pipeline_text(folder, list_file=path)) == \
        folder.samples
    whole = datasets.ImageFolder(photos, T.ToTensor())
    part = Subset(Subset(whole, [7, 3, 3, 11, 0]), torch.tensor([4, 1, 3]))
    assert names(whole, pipeline_text(part, list_file=path)) == [
        whole.samples[i] for i in (0, 3, 11)]


def test_a_class_folder_of_another_order_is_respected(photos, tmp_path):
    class Backwards(datasets.ImageFolder):
        def find_classes(self, directory):
            names = super().find_classes(directory)[0][::-1]
            return names, {n: i for i, n in enumerate(names)}
    data = Backwards(photos, T.ToTensor())
    text = pipeline_text(data, list_file=tmp_path / "l")
    assert names(data, text) == data.samples
    loader = millrace.torch.DataLoader(text.split(" | ")[0] + " | batch 1")
    assert loader.classes == []


def test_names_of_any_kind_survive(tmp_path):
    root = tmp_path / "it's | a # \"root\" \n=x\t"
    odd = ["tab\t", "cr\r", "#x", "\"", "'", "'\"'", ",", "a,b", "=", "k=v",
           " lead", "\udcff", "\u00fc", "|", "\\", "%s"]
    for i, name in enumerate(odd):
        save(root / f"class {name}" / f"{name}.png", 4, 4, i)
    data = datasets.ImageFolder(root, T.ToTensor())
    assert len(data) == len(odd)
    assert names(data, pipeline_text(data)) == data.samples
    part = Subset(data, range(len(data)))
    plain = tmp_path / "plain"
    os.rename(root, plain)
    data.root = str(plain)
    data.samples = [(p.replace(str(root), str(plain)), t)
                    for p, t in data.samples]
    text = pipeline_text(part, list_file=tmp_path / "'l i s t'")
    assert text.startswith("list ") and names(data, text) == data.samples


def test_a_line_break_in_a_name_is_named_when_a_list_is_needed(tmp_path):
    save(tmp_path / "x" / "a\nb.png", 4, 4)
    data = datasets.ImageFolder(tmp_path, T.ToTensor())
    assert names(data, pipeline_text(data)) == data.samples
    with pytest.raises(ConversionError, match=r"'.*a\\nb.png' has a line br"):
        from_dataset(Subset(data, [0]))


# ---- the same images ----

@pytest.mark.parametrize("transform, std", [
    (to_size(T.ToTensor()), 1),
    (to_size(T.ToTensor(), T.Normalize(MEAN, STD)), STD),
    (to_size(T.PILToTensor()), 1),
    (to_size(T.PILToTensor(), T.ConvertImageDtype(torch.float)), 1),
    (to_size(T.Grayscale(), T.ToTensor()), 1),
    (to_size(T.Grayscale(), T.PILToTensor()), 1),
    (to_size(T.Grayscale(3), T.ToTensor(), T.Normalize(MEAN, STD)), STD),
    (T.Compose([T.Grayscale(), T.Resize((20, 30)), T.ToTensor()]), 1),
    (T.Compose([T.Resize((40, 30), Mode.BICUBIC), T.ToTensor()]), 1),
    (T.Compose([T.Resize((150, 130)), T.PILToTensor()]), 1),
    (T.Compose([T.Resize((45, 130), Mode.BOX), T.PILToTensor()]), 1),
    (T.Compose([T.Resize(60), T.CenterCrop((90, 50)), T.ToTensor(),
                T.Normalize(MEAN, STD)]), STD),
    (T.Compose([T.CenterCrop(101), T.PILToTensor()]), 1),
    (T.Compose([T.Resize((30, 40)), T.CenterCrop(24), T.Resize(12),
                T.ToTensor()]), 1),
    (T.Compose([T.Resize((32, 32)), T.RandomHorizontalFlip(1.0),
                T.ToTensor(), T.RandomHorizontalFlip(0.0)]), 1),
], ids=str)
def test_images_are_torchvisions(photos, transform, std):
    loader = same(datasets.ImageFolder(photos, transform), std)
    assert loader.pipeline.startswith("files ")


@pytest.mark.parametrize("grey", [[], [T.Grayscale()], [T.Grayscale(3)]],
                         ids=["colour", "grey", "grey3"])
@pytest.mark.parametrize("name, factor", [
    ("brightness", 0.7), ("brightness", 1.4), ("contrast", 0.4),
    ("contrast", 1.6), ("saturation", 0.3), ("saturation", 1.9),
    ("hue", -0.2), ("hue", 0.3)])
def test_colours_are_torchvisions_to_the_bit(photos, grey, name, factor):
    # One factor to choose from leaves nothing to chance. No Resize: a hue
    # makes more of its rounding.
    jitter = T.ColorJitter(**{name: (factor, factor)})
    data = datasets.ImageFolder(photos, T.Compose([
        T.CenterCrop(33), *grey, jitter, T.PILToTensor()]))
    want = next(iter(torch.utils.data.DataLoader(data, batch_size=12)))
    got = next(iter(from_dataset(data, batch_size=12)))
    assert torch.equal(got[0], want[0]) and torch.equal(got[1], want[1])


def test_images_of_their_own_size_come_one_by_one(photos):
    data = datasets.ImageFolder(photos, T.ToTensor())
    same(data, batch_size=1)
    with pytest.raises(RuntimeError, match="different shapes"):
        list(from_dataset(data, batch_size=4))


def test_orientation_is_ignored_as_torchvisions_loader_does(tmp_path):
    exif = Image.Exif()
    exif[0x112] = 6
    save(tmp_path / "x" / "1.jpg", 40, 60, exif=exif)
    data = datasets.ImageFolder(tmp_path, T.ToTensor())
    same(data, batch_size=1)


def test_a_list_gives_the_same_images(photos):
    whole = datasets.ImageFolder(photos, to_size(T.ToTensor()))
    part = Subset(whole, [10, 3, 3, 0, 11, 5])
    loader = same(part, batch_size=4)
    assert loader.pipeline.startswith("list ")
    assert loader.dataset is part and len(loader.dataset) == 6
    assert loader.classes == whole.classes
    assert loader.class_to_idx == whole.class_to_idx


def test_fast_decoding_is_near(photos):
    data = datasets.ImageFolder(photos, to_size(T.ToTensor()))
    loader = from_dataset(data, batch_size=20, fast=True)
    want = next(iter(torch.utils.data.DataLoader(data, batch_size=20)))
    got = next(iter(loader))
    assert torch.equal(got[1], want[1])
    assert (got[0] - want[0]).abs().mean() < 4 / 255


def test_photos_of_imagenet_are_torchvisions(tmp_path):
    photos = sorted((DATA / "jpeg" / "imagenet").glob("*.JPEG"))
    if not photos:
        pytest.skip(f"no photos in {DATA}/jpeg/imagenet")
    for path in photos[::10]:
        folder = tmp_path / path.name.split("_")[0]
        folder.mkdir()
        (folder / path.name).symlink_to(path)
    data = datasets.ImageFolder(tmp_path, T.Compose([
        T.Resize(256), T.CenterCrop(224), T.ToTensor(),
        T.Normalize(MEAN, STD)]))
    same(data, STD, batch_size=16)


# ---- random transforms ----

COPIES = 240


@pytest.fixture
def ramps(tmp_path):
    """One image many times: red grows to the right, green downwards."""
    a = np.full((48, 64, 3), 100, np.uint8)
    a[..., 0] = 4 * np.arange(64)
    a[..., 1] = 5 * np.arange(48)[:, None]
    (tmp_path / "x").mkdir()
    Image.fromarray(a).save(tmp_path / "x" / "000.png")
    for i in range(1, COPIES):
        (tmp_path / "x" / f"{i:03}.png").symlink_to("000.png")
    return tmp_path


def both(root, *transform, **options):
    """All images of an epoch, ours and theirs."""
    data = datasets.ImageFolder(root, T.Compose(transform))
    torch.manual_seed(1)
    theirs = torch.utils.data.DataLoader(data, batch_size=COPIES)
    ours = from_dataset(data, batch_size=COPIES, **options)
    a, b = next(iter(ours))[0], next(iter(theirs))[0]
    assert a.dtype == b.dtype and a.shape == b.shape
    return a, b


def alike(a, b):
    """Two samples of one distribution, by mean, deviation and quantiles:
    the extremes of so few say nothing."""
    a, b = a.double(), b.double()
    s = b.std() + 1e-9
    assert abs(a.mean() - b.mean()) < 4.5 * s * (2 / len(b)) ** 0.5
    assert 0.75 < (a.std() + 1e-9) / s < 1.33
    for q in 0.05, 0.95:
        assert abs(a.quantile(q) - b.quantile(q)) < 0.9 * s


@pytest.mark.parametrize("p", [0.5, 0.2])
def test_flips_happen_as_often(ramps, p):
    a, _ = both(ramps, T.RandomHorizontalFlip(p), T.PILToTensor())
    still = torch.from_numpy(np.array(Image.open(ramps / "x" / "000.png")))
    still = still.permute(2, 0, 1)
    flipped = [torch.equal(x, still.flip(-1)) for x in a]
    assert all(f or torch.equal(x, still) for f, x in zip(flipped, a))
    assert abs(np.mean(flipped) - p) < 4 * (p * (1 - p) / COPIES) ** 0.5


def test_random_crops_are_parts_of_the_padded_image(ramps):
    a, _ = both(ramps, T.RandomCrop((48, 60), padding=(3, 4)),
                T.PILToTensor())
    image = np.array(Image.open(ramps / "x" / "000.png"))
    padded = np.pad(image, ((4, 4), (3, 3), (0, 0)))
    found = set()
    for x in a.permute(0, 2, 3, 1).numpy():
        at = [(i, j) for i in range(9) for j in range(11)
              if np.array_equal(x, padded[i:i + 48, j:j + 60])]
        assert len(at) == 1
        found.add(at[0])
    assert len(found) > 70          # of 99; 240 draws leave out 9
    assert {i for i, _ in found} == set(range(9))
    assert {j for _, j in found} == set(range(11))


@pytest.mark.parametrize("options", [
    {}, {"scale": (0.4, 0.6), "ratio": (1, 1.2)},
    {"interpolation": Mode.BICUBIC}], ids=str)
def test_random_resized_crops_are_as_large_and_as_wide(ramps, options):
    pair = both(ramps, T.RandomResizedCrop((24, 32), **options), T.ToTensor())
    width, height = ([(x[:, c].amax((1, 2)) - x[:, c].amin((1, 2)))
                      for x in pair] for c in (0, 1))
    alike(*width)
    alike(*height)
    alike(*(w * h for w, h in zip(width, height)))
    for c in 0, 1:
        alike(*(x[:, c].mean((1, 2)) for x in pair))


@pytest.mark.parametrize("options", [
    {"brightness": 0.4}, {"contrast": 0.5}, {"saturation": (0.2, 2)},
    {"hue": 0.3}, {"brightness": 0.2, "contrast": 0.2, "saturation": 0.2,
                   "hue": 0.05}], ids=str)
def test_jitter_changes_colours_as_much(ramps, options):
    pair = both(ramps, T.ColorJitter(**options), T.ToTensor())
    for c in range(3):
        alike(*(x[:, c].mean((1, 2)) for x in pair))
        alike(*(x[:, c].std((1, 2)) for x in pair))


def test_hues_are_those_that_torchvision_can_give(ramps):
    data = datasets.ImageFolder(ramps, T.Compose([T.ColorJitter(hue=0.05),
                                                  T.PILToTensor()]))
    image = Image.open(ramps / "x" / "000.png")
    # It turns hues by whole steps of 255, cut off towards 0: 12.75 is 12.
    turned = [T.functional.adjust_hue(image, (k + np.sign(k) / 2) / 255)
              for k in range(-12, 13)]
    turned = [T.functional.pil_to_tensor(t) for t in turned]
    seen = set()
    loader = from_dataset(data, batch_size=COPIES)
    # One epoch leaves a step out with a chance of 0.3 %, three with none.
    for x in torch.cat([images for _ in range(3) for images, _ in loader]):
        k = [k for k, t in enumerate(turned) if torch.equal(x, t)]
        assert len(k) == 1
        seen.update(k)
    assert seen == set(range(25))


def test_a_usual_training_pipeline_runs(photos):
    data = datasets.ImageFolder(photos, T.Compose([
        T.RandomResizedCrop(32), T.RandomHorizontalFlip(),
        T.ColorJitter(0.4, 0.4, 0.4, 0.1), T.ToTensor(),
        T.Normalize(MEAN, STD)]))
    loader = from_dataset(data, batch_size=5, shuffle=True, drop_last=True,
                          num_workers=2, seed=3, memory="64M")
    assert len(loader) == 2 and loader.batch_size == 5
    epochs = [[y.tolist() for x, y in loader] for _ in range(3)]
    assert epochs[0] != epochs[1] or epochs[0] != epochs[2]
    for x, y in loader:
        assert x.shape == (5, 3, 32, 32) and x.dtype == torch.float32
        low = (0 - torch.tensor(MEAN)) / torch.tensor(STD)
        high = (1 - torch.tensor(MEAN)) / torch.tensor(STD)
        assert (x.amin((0, 2, 3)) >= low - 1e-4).all()
        assert (x.amax((0, 2, 3)) <= high + 1e-4).all()
    assert loader.stats()["threads"] == 2


# ---- the loader ----

def test_the_loader_knows_its_data_set(photos):
    data = datasets.ImageFolder(photos, to_size(T.ToTensor()))
    with from_dataset(data, batch_size=5) as loader:
        assert loader.dataset is data and len(loader.dataset) == 12
        assert loader.classes == data.classes
        assert loader.class_to_idx == data.class_to_idx
        assert loader.batch_size == 5 and len(loader) == 3
        assert len(from_dataset(data, batch_size=5, drop_last=True)) == 2
        assert len(from_dataset(data, batch_size=5, rank=(0, 3))) == 1
        assert isinstance(millrace.explain(loader.pipeline), str)


def test_a_temporary_list_lives_as_long_as_its_loader(photos, tmp_path,
                                                      monkeypatch):
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    data = datasets.ImageFolder(photos, to_size(T.ToTensor()))
    loader = from_dataset(Subset(data, [1, 2]))
    assert len(os.listdir(tmp_path / "tmp")) == 1
    assert isinstance(millrace.explain(loader.pipeline), str)
    del loader
    gc.collect()
    assert os.listdir(tmp_path / "tmp") == []
    with pytest.raises(TypeError):
        from_dataset(Subset(data, [1, 2]), thread=7)
    assert os.listdir(tmp_path / "tmp") == []
    loader = from_dataset(Subset(data, [1, 2]), list_file=tmp_path / "list")
    assert os.listdir(tmp_path / "tmp") == []
    assert f"list {tmp_path}/list " in loader.pipeline


@pytest.mark.parametrize("part", [range(12), range(1, 12)])
def test_states_hold_in_another_process_too(photos, part):
    whole = datasets.ImageFolder(photos, to_size(T.ToTensor()))
    data = whole if len(part) == 12 else Subset(whole, part)
    a = from_dataset(data, batch_size=2, shuffle=True, seed=8)
    it = iter(a)
    next(it)
    state = json.loads(json.dumps(a.state_dict()))
    want = [(x.sum(), y.tolist()) for x, y in it]
    del a, it
    b = from_dataset(data, batch_size=2, shuffle=True)
    b.load_state_dict(state)
    assert b.state_dict() == state
    assert [(x.sum(), y.tolist()) for x, y in b] == want
    for other in (from_dataset(data, batch_size=2),
                  from_dataset(Subset(whole, range(11)), batch_size=2,
                               shuffle=True),
                  from_dataset(data, batch_size=3, shuffle=True),
                  from_dataset(data, batch_size=2, shuffle=True, subset=8)):
        with pytest.raises(millrace.Error):
            other.load_state_dict(state)


def test_a_broken_image_stops_the_loop_or_is_skipped(photos):
    broken = photos / "bee" / "alpha.png"
    broken.write_bytes(broken.read_bytes()[:100])
    data = datasets.ImageFolder(photos, to_size(T.ToTensor()))
    with pytest.raises(millrace.DataError, match="bee/alpha.png"):
        list(from_dataset(data, batch_size=4))
    loader = from_dataset(data, batch_size=4, on_error="skip")
    assert sum(len(y) for _, y in loader) == 11
    assert loader.bad_samples()[0]["key"] == "bee/alpha.png"
