"""Tensors of a safetensors checkpoint as float32, read by ``safetensors`` when they are asked for.

The inspector has read and judged the headers before; the library holds each file's own header against its
size once more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from ropewalk.errors import CheckpointError
from ropewalk.inspector.readers.store import open_regular
from ropewalk.inspector.tensors import Tensor, TensorTable

_DTYPES = frozenset({"F32", "BF16", "F16"})
_SLICE_ROWS = 8192  # of an output head: at most a few hundred MB in float32


class Weights:
    """The weights of a checkpoint on this machine; ``bytes_read`` counts what was taken from the files."""

    def __init__(self, folder: Path, tensors: TensorTable) -> None:
        self._folder = folder
        self._table = tensors
        self._files: dict[str, Any] = {}
        self.bytes_read = 0

    def has(self, name: str) -> bool:
        """Whether there is a tensor of this name."""
        return self._table.get(name) is not None

    def names(self, start: str) -> list[str]:
        """What follows ``start`` in the names that begin with it."""
        return [name.removeprefix(start) for name in self._table.names if name.startswith(start)]

    def tensor(self, name: str) -> torch.Tensor:
        """A whole tensor in its own shape. Raises :class:`CheckpointError`."""
        tensor = self._find(name)
        return self._read(tensor, 0, tensor.shape[0] if tensor.shape else 1)

    def rows(self, name: str, indices: Sequence[int]) -> torch.Tensor:
        """These rows of a matrix, one under the other."""
        tensor = self._find(name)
        return torch.cat([self._read(tensor, index, index + 1) for index in indices])

    def slices(self, name: str) -> Iterator[torch.Tensor]:
        """A large matrix in slices of rows."""
        tensor = self._find(name)
        count = tensor.shape[0]
        for first in range(0, count, _SLICE_ROWS):
            yield self._read(tensor, first, min(first + _SLICE_ROWS, count))

    def _find(self, name: str) -> Tensor:
        tensor = self._table.get(name)
        if tensor is None or tensor.dtype not in _DTYPES:
            found = "is not there" if tensor is None else f"is stored as {tensor.dtype}"
            raise CheckpointError(f"the tensor {name} {found}", where={"tensor": name})
        return tensor

    def _read(self, tensor: Tensor, first: int, last: int) -> torch.Tensor:
        """Rows ``first`` up to ``last``; a tensor without dimensions as a whole."""
        path = self._folder / tensor.file
        try:
            file = self._file(tensor.file, path)
            rows: torch.Tensor
            rows = file.get_slice(tensor.name)[first:last] if tensor.shape else file.get_tensor(tensor.name)
        except (SafetensorError, OSError) as error:
            raise CheckpointError(
                f"{path} cannot be read: {error}",
                code="truncated_payload",
                where={"file": str(path), "tensor": tensor.name},
            ) from error
        self.bytes_read += rows.numel() * rows.element_size()
        return rows.to(torch.float32)

    def _file(self, name: str, path: Path) -> Any:
        if name not in self._files:
            open_regular(path).close()  # the library would wait for ever on a pipe
            self._files[name] = safe_open(path, framework="pt")
        return self._files[name]
