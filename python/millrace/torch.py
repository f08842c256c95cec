# SPDX-License-Identifier: Apache-2.0
"""Millrace in the place of torch.utils.data.DataLoader.

    from millrace.torch import DataLoader, from_dataset

    loader = DataLoader("files photos | decode_image | ... | batch 256")
    loader = from_dataset(ImageFolder("photos", transform), batch_size=256)
    for images, labels in loader:       # one epoch, tensors
        ...
"""
from __future__ import annotations

import os
import re
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ._core import Batch, Loader, explain

__all__ = ["ConversionError", "DataLoader", "from_dataset", "pipeline_text"]


class ConversionError(ValueError):
    """from_dataset() found something that no pipeline stands for.

    `problems` is a list of texts, one for each thing that was found.
    """

    def __init__(self, problems: list[str]) -> None:
        super().__init__(problems)
        self.problems = problems

    def __str__(self) -> str:
        return "\n".join(self.problems)


class _Samples:
    """What is known of a pipeline's data set: loader.dataset."""

    def __init__(self, loader: DataLoader) -> None:
        self.classes = loader.classes
        self.class_to_idx = loader.class_to_idx
        self._count = loader.dataset_samples

    def __len__(self) -> int:
        return self._count


class DataLoader(Loader):
    """DataLoader(pipeline, *, rank=None, pin_memory=False, **options)

    Yields what torch's DataLoader yields over a data set that returns the
    pipeline's fields: a list of tensors in the order of the fields, such as
    [images, labels], or the tensor itself when there is one field only. The
    tensors are the loader's own memory, yours as long as you hold them.

    Each `for` is one epoch, the next one the next epoch, also when a loop
    broke off; only load_state_dict() continues in the middle of one.

    rank is (R, N). Without it the process group of torch.distributed says it,
    or the variables RANK and WORLD_SIZE that torchrun sets. pin_memory copies
    into pinned memory when there is CUDA. The options are millrace.Loader's.
    """

    def __init__(self, pipeline: str, *,
                 rank: tuple[int, int] | str | None = None,
                 pin_memory: bool = False, **options: Any) -> None:
        super().__init__(pipeline, rank=_rank() if rank is None else rank,
                         **options)
        self.pin_memory = pin_memory
        self._pin = pin_memory and torch.cuda.is_available()
        self._plugins = options.get("plugins")
        self._turn: object = None       # the loop that has not ended
        self._batch_size: int | None = None
        # of from_dataset(): the torch data set, its ImageFolder, and what a
        # state names instead of a pipeline with a temporary file in it
        self._dataset: Any = None
        self._folder: Any = None
        self._mark: int | None = None

    # ---- loops ----

    def __iter__(self) -> Iterator[Any]:        # type: ignore[override]
        if self._turn is not None:
            state = self.state_dict()
            # At 0 the last loop took nothing, or all without asking for
            # the end: either way the epoch begins there.
            self._go(state, state["epoch"] + (state["batch"] > 0))
        batches = super().__iter__()
        self._turn = turn = object()
        return self._loop(batches, turn)

    def _loop(self, batches: Iterator[Batch], turn: object) -> Iterator[Any]:
        while self._turn is turn:
            batch = next(batches, None)
            if batch is None:
                self._turn = None
                return
            yield self._collate(batch)
        raise RuntimeError("this loop is over: another one began, or the "
                           "loader was moved; it gives one epoch at a time")

    def _collate(self, batch: Batch) -> Any:
        out = [_dense(batch, name, x) for name, x in batch.torch().items()]
        if self._pin:
            out = [x.pin_memory() for x in out]
        return out if len(out) > 1 else out[0]

    # ---- where it stands ----

    def state_dict(self) -> dict[str, int]:
        """Where the loader stands, exact in the middle of an epoch."""
        state = super().state_dict()
        if self._mark is not None:
            state["pipeline"] = self._mark
        return state

    def load_state_dict(self, state: Mapping[str, int], /) -> None:
        """Continue from there: the next loop gives what is left."""
        if self._mark is not None and isinstance(state, Mapping):
            if state.get("pipeline") == self._mark:
                own = super().state_dict()["pipeline"]
                state = {**state, "pipeline": own}
        super().load_state_dict(state)
        self._turn = None

    def set_epoch(self, epoch: int) -> None:
        """Let the next loop be this epoch, from its first batch.

        Not needed: each loop is an epoch of its own, in another order.
        """
        state = self.state_dict()
        here = state["epoch"] == epoch and state["batch"] == 0
        if not here or self._turn is not None:
            self._go(state, epoch)

    def _go(self, state: dict[str, int], epoch: int) -> None:
        self.load_state_dict({**state, "epoch": epoch, "batch": 0})

    # ---- what is known ----

    @property
    def batch_size(self) -> int:
        """Samples in a full batch."""
        if self._batch_size is None:
            plan = explain(self.pipeline or "", json=True,
                           plugins=self._plugins)
            text = next(s["text"] for s in reversed(plan["steps"])
                        if s["name"] == "batch")
            self._batch_size = int(re.findall(r"count=(\d+)", text)[0])
        return self._batch_size

    @property
    def dataset(self) -> Any:
        """The data set of from_dataset(); of a text, something with len(),
        classes and class_to_idx."""
        return _Samples(self) if self._dataset is None else self._dataset

    @property
    def classes(self) -> list[Any]:
        """Names of the classes by number; [] when the source has none."""
        return super().classes if self._folder is None else \
            self._folder.classes

    @property
    def class_to_idx(self) -> dict[str, int]:
        """Numbers of the classes by name."""
        return super().class_to_idx if self._folder is None else \
            self._folder.class_to_idx


def from_dataset(dataset: Any, *, batch_size: int = 1, shuffle: bool = False,
                 drop_last: bool = False, num_workers: int = 0,
                 pin_memory: bool = False, fast: bool = False,
                 list_file: str | os.PathLike[str] | None = None,
                 **options: Any) -> DataLoader:
    """A loader for torchvision's ImageFolder, or a Subset of one.

    The transforms become steps of a pipeline, `loader.pipeline`; what has no
    counterpart is named in a ConversionError. Samples, labels, shapes and
    types are those of torch's DataLoader, and so is their order unless
    shuffle=True. num_workers are threads, 0: one per core. fast=True decodes
    JPEG faster, not to the same bits. list_file keeps the list of samples
    where the pipeline needs one. The options are DataLoader's.
    """
    from . import _torchvision

    plan = _torchvision.Plan(dataset, batch_size, drop_last, fast)
    options.setdefault("order", "shuffle" if shuffle else "sequential")
    options.setdefault("threads", num_workers)
    text = plan.text(list_file)
    temporary = None
    if text is None:
        fd, temporary = tempfile.mkstemp(".csv", "millrace-")
        os.close(fd)
    try:
        loader = DataLoader(text or plan.text(temporary),
                            pin_memory=pin_memory, **options)
        if temporary:
            weakref.finalize(loader, _unlink, temporary, os.getpid())
    except BaseException:
        if temporary:
            os.unlink(temporary)
        raise
    if temporary:
        loader._mark = plan.mark(options["order"], options.get("block"),
                                 options.get("subset", 0))
    loader._batch_size = batch_size
    loader._dataset, loader._folder = dataset, plan.folder
    return loader


def pipeline_text(dataset: Any, batch_size: int = 1, *,
                  drop_last: bool = False, fast: bool = False,
                  list_file: str | os.PathLike[str] | None = None) -> str:
    """The pipeline that from_dataset() makes.

    Samples that are not simply the images in a folder need a list: it is
    written to list_file.
    """
    from . import _torchvision

    text = _torchvision.Plan(dataset, batch_size, drop_last,
                             fast).text(list_file)
    if text is None:
        raise ConversionError([
            "the samples are not simply all images of a folder: give "
            "list_file=PATH, where their list is written"])
    return text


def _rank() -> tuple[int, int] | None:
    """(R, N) from the process group or the environment."""
    group = torch.distributed
    if group.is_available() and group.is_initialized():
        return group.get_rank(), group.get_world_size()
    rank, ranks = os.environ.get("RANK"), os.environ.get("WORLD_SIZE")
    if rank is None or ranks is None:
        return None
    if not (rank.isdecimal() and ranks.isdecimal()):
        raise ValueError(f"RANK={rank!r}, WORLD_SIZE={ranks!r} in the "
                         "environment: want whole numbers; rank=(R, N) "
                         "overrides them")
    return int(rank), int(ranks)


def _dense(batch: Batch, name: str, x: torch.Tensor) -> torch.Tensor:
    """A ragged field whose samples happen to agree is dense."""
    shapes = None if batch.offsets(name) is None else batch.shapes(name)
    if shapes is None:
        return x
    other = shapes[(shapes != shapes[0]).any(axis=1)]
    if len(other):
        raise RuntimeError(
            f"the samples of field '{name}' in batch {batch.number} have "
            f"different shapes, such as {tuple(shapes[0].tolist())} and "
            f"{tuple(other[0].tolist())}; resize or crop them to one size, "
            "fill them up with `batch N pad=0`, or take them one by one from "
            "millrace.Loader")
    return x.view(batch.count, *shapes[0].tolist())


def _unlink(path: str, pid: int) -> None:
    """Not in a forked child, which ends before its parent."""
    if os.getpid() == pid:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
