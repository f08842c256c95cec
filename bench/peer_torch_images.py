#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""torch's DataLoader over an ImageFolder of photos, as people write it.

usage: peer_torch_images.py pil|cv2 train|val DIR BATCH WORKERS

pil: Pillow and torchvision's transforms. cv2: the same work with OpenCV and
NumPy (bilinear without antialiasing, which is less work than Pillow's).
train: RandomResizedCrop(224), RandomHorizontalFlip, ToTensor, Normalize;
val: Resize(256), CenterCrop(224), ToTensor, Normalize. Delivers f32 NCHW.
Workers stay alive between epochs; between slices they wait for an index.
"""
import math
import random
import sys

import numpy as np
import PIL
import torch
import torchvision
from torch.utils.data import DataLoader
from torchvision import transforms as T
from torchvision.datasets import ImageFolder

from slices import serve

if sys.argv[1] == "cv2":       # who uses Pillow does not wait for its import
    import cv2

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
TO = [T.ToTensor(), T.Normalize(MEAN, STD)]
PIL_STEPS = {
    "train": T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(),
                        *TO]),
    "val": T.Compose([T.Resize(256), T.CenterCrop(224), *TO])}
MEAN255 = np.array(MEAN, np.float32) * 255
SCALE = 1 / (np.array(STD, np.float32) * 255)


def cv2_load(path):
    image = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR)
    return cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def crop_box(height, width):
    """RandomResizedCrop's rule, without its tensors of one number."""
    for _ in range(10):
        area = height * width * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return (random.randint(0, height - h),
                    random.randint(0, width - w), h, w)
    w = min(width, round(height * 4 / 3))
    h = min(height, round(width * 4 / 3))
    return (height - h) // 2, (width - w) // 2, h, w


def cv2_finish(image):
    image = image.astype(np.float32)
    image -= MEAN255
    image *= SCALE
    return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1)))


def cv2_train(image):
    y, x, h, w = crop_box(*image.shape[:2])
    image = cv2.resize(image[y:y + h, x:x + w], (224, 224),
                       interpolation=cv2.INTER_LINEAR)
    if random.random() < 0.5:
        image = cv2.flip(image, 1)
    return cv2_finish(image)


def cv2_val(image):
    h, w = image.shape[:2]
    k = 256 / min(h, w)
    h, w = max(256, round(h * k)), max(256, round(w * k))
    image = cv2.resize(image, (w, h), interpolation=cv2.INTER_LINEAR)
    y, x = (h - 224) // 2, (w - 224) // 2
    return cv2_finish(image[y:y + 224, x:x + 224])


def single(_worker):
    torch.set_num_threads(1)
    if "cv2" in sys.modules:
        cv2.setNumThreads(0)


def main():
    library, mode, path, batch, workers = sys.argv[1:]
    if library == "pil":
        data = ImageFolder(path, PIL_STEPS[mode])
    else:
        data = ImageFolder(path, {"train": cv2_train, "val": cv2_val}[mode],
                           loader=cv2_load)
    single(None)
    loader = DataLoader(data, batch_size=int(batch), shuffle=mode == "train",
                        num_workers=int(workers), worker_init_fn=single,
                        persistent_workers=True)

    def epoch(first):
        samples = 0
        for images, labels in loader:
            first()
            samples += len(labels)
        assert images.dtype == torch.float32 and images.is_contiguous()
        assert images.shape[1:] == (3, 224, 224)
        return samples

    decoder = {"Pillow": PIL.__version__} if library == "pil" else \
        {"OpenCV": cv2.__version__}
    serve(epoch, warmups=1, layout="NCHW", versions={
        "torch": torch.__version__, "torchvision": torchvision.__version__,
        **decoder})


if __name__ == "__main__":
    main()
