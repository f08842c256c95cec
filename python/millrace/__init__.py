# SPDX-License-Identifier: Apache-2.0
"""Millrace feeds training data to neural networks and says why they wait.

    import millrace

    loader = millrace.Loader("npy train.npy | batch 256", seed=1)
    for batch in loader:            # one epoch
        x = batch["data"]           # a NumPy view, no copy

help(millrace.Loader) lists the options, millrace.list() the sources and steps.
"""
from collections.abc import Mapping as _Mapping

from ._core import (
    Batch,
    DataError,
    Error,
    LimitError,
    Loader,
    PipelineError,
    StateError,
    StorageError,
    Tensor,
    UnsupportedError,
    __version__,
    explain,
    list,
)

__all__ = [
    "Batch", "DataError", "Error", "LimitError", "Loader", "PipelineError",
    "StateError", "StorageError", "Tensor", "UnsupportedError", "__version__",
    "explain", "list",
]

_Mapping.register(Batch)
