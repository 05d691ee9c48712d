"""Tensors of a safetensors checkpoint as float32, read when they are asked for, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import BufferedReader
from pathlib import Path

import torch

from ropewalk.errors import CheckpointError
from ropewalk.inspector.readers.safetensors import LENGTH_BYTES
from ropewalk.inspector.readers.store import open_regular
from ropewalk.inspector.tensors import Tensor, TensorTable

_DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
_SLICE_ROWS = 8192  # of an output head: at most a few hundred MB in float32


class Weights:
    """The weights of a checkpoint on this machine; ``bytes_read`` counts what was taken from the files."""

    def __init__(self, folder: Path, tensors: TensorTable) -> None:
        self._folder = folder
        self._table = tensors
        self._starts: dict[str, int] = {}
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
        return self._read(tensor, 0, tensor.nbytes).view(tensor.shape)

    def rows(self, name: str, indices: Sequence[int]) -> torch.Tensor:
        """These rows of a matrix, one under the other."""
        tensor = self._find(name)
        width = tensor.nbytes // tensor.shape[0]
        return torch.stack([self._read(tensor, index * width, width) for index in indices])

    def slices(self, name: str) -> Iterator[torch.Tensor]:
        """A large matrix in slices of rows."""
        tensor = self._find(name)
        count, columns = tensor.shape
        width = tensor.nbytes // count
        for first in range(0, count, _SLICE_ROWS):
            rows = min(_SLICE_ROWS, count - first)
            yield self._read(tensor, first * width, rows * width).view(rows, columns)

    def _find(self, name: str) -> Tensor:
        tensor = self._table.get(name)
        if tensor is None or tensor.dtype not in _DTYPES:
            found = "is not there" if tensor is None else f"is stored as {tensor.dtype}"
            raise CheckpointError(f"the tensor {name} {found}", where={"tensor": name})
        return tensor

    def _read(self, tensor: Tensor, skip: int, count: int) -> torch.Tensor:
        path = self._folder / tensor.file
        data = bytearray(count)  # bounded: the inspector holds every range to the size of its file
        with BufferedReader(open_regular(path)) as stream:
            stream.seek(self._start(tensor.file, path) + tensor.offset + skip)
            found = stream.readinto(data)
        if found != count:
            raise CheckpointError(
                f"{path} ends inside {tensor.name}: {found} of {count} bytes",
                code="truncated_payload",
                where={"file": str(path), "tensor": tensor.name},
            )
        self.bytes_read += count
        return torch.frombuffer(data, dtype=_DTYPES[tensor.dtype]).to(torch.float32)

    def _start(self, file: str, path: Path) -> int:
        """Where the data section begins; the inspector has validated the header."""
        if file not in self._starts:
            with open_regular(path) as stream:
                self._starts[file] = LENGTH_BYTES + int.from_bytes(stream.read(LENGTH_BYTES), "little")
        return self._starts[file]
