"""The tensors of a checkpoint as columns.

A record for each of 92,000 tensors costs twice the memory of everything else, so the table keeps one
list or array per column and makes a :class:`Tensor` only for who asks.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from math import prod

from ropewalk.errors import CheckpointError
from ropewalk.limits import MAX_ALL_NAME_CHARS, MAX_NAME_CHARS, MAX_TENSORS

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor as its header states it. ``shape`` is row-major (outermost first) in every format."""

    name: str
    dtype: str
    shape: Shape
    nbytes: int
    file: str
    offset: int

    @property
    def elements(self) -> int:
        """Stored elements: the product of the shape; 1 for a scalar, 0 where a dimension is 0."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Columns:
    """The rows of one file, column by column, in the header's order; the fields as in the table.

    Equal shapes and dtypes are one object each.
    """

    names: Sequence[str]
    dtypes: Sequence[str]
    shapes: Sequence[Shape]
    nbytes: Sequence[int]
    offsets: Sequence[int]

    def without(self, names: Collection[str]) -> Columns:
        """The same columns less these tensors."""
        keep = [name not in names for name in self.names]
        return Columns(
            names=list(compress(self.names, keep)),
            dtypes=list(compress(self.dtypes, keep)),
            shapes=list(compress(self.shapes, keep)),
            nbytes=list(compress(self.nbytes, keep)),
            offsets=list(compress(self.offsets, keep)),
        )


def too_large(file: str, what: str, count: int, most: int) -> CheckpointError:
    """The error for a checkpoint with more of something than is read."""
    return CheckpointError(
        f"{file}: {count:,} {what}; at most {most:,} are read",
        code="too_large", where={"file": file, "count": count, "limit": most},
    )  # fmt: skip


class TensorTable:
    """All tensors of a checkpoint, in the order of files and headers.

    ``dtypes`` holds the format's own spelling (``BF16``, ``F8_E4M3``, ``Q4_K``), ``nbytes`` the stored
    bytes, ``offsets`` the start within the file's data section, ``file_index`` the row of ``files``.
    Shapes and dtypes are shared objects: a checkpoint has few different ones.
    """

    __slots__ = (
        "_name_chars",
        "_rows",
        "_shapes_seen",
        "dtypes",
        "file_index",
        "files",
        "names",
        "nbytes",
        "offsets",
        "shapes",
    )

    def __init__(self) -> None:
        self.files: list[str] = []
        self.names: list[str] = []
        self.dtypes: list[str] = []
        self.shapes: list[Shape] = []
        self.nbytes: array[int] = array("Q")
        self.offsets: array[int] = array("Q")
        self.file_index: array[int] = array("L")
        self._shapes_seen: dict[Shape, Shape] = {}
        self._name_chars = 0
        self._rows: dict[str, int] | None = None

    def add_file(self, name: str) -> int:
        """Register a file; the index returned goes into :meth:`append`."""
        self.files.append(name)
        return len(self.files) - 1

    def append(self, name: str, dtype: str, shape: Shape, nbytes: int, file: int, offset: int) -> None:
        """Add a row. The caller has validated it: sizes are non-negative and below 2**63."""
        self.names.append(name)
        self.dtypes.append(dtype)
        self.shapes.append(self._shapes_seen.setdefault(shape, shape))
        self.nbytes.append(nbytes)
        self.file_index.append(file)
        self.offsets.append(offset)
        self._rows = None

    def extend(self, columns: Columns, file: int) -> None:
        """Add all rows of one file, validated by the caller.

        Raises :class:`CheckpointError` ``too_large`` beyond the limits of a checkpoint.
        """
        lengths = list(map(len, columns.names))
        self._name_chars += sum(lengths)
        for what, count, most in (
            ("tensors", len(self) + len(lengths), MAX_TENSORS),
            ("characters in the name of a tensor", max(lengths, default=0), MAX_NAME_CHARS),
            ("characters in the names of its tensors", self._name_chars, MAX_ALL_NAME_CHARS),
        ):
            if count > most:
                raise too_large(self.files[file], what, count, most)
        self.names.extend(columns.names)
        self.dtypes.extend(columns.dtypes)
        self.shapes.extend(columns.shapes)
        self.nbytes.extend(columns.nbytes)
        self.offsets.extend(columns.offsets)
        self.file_index.extend(array("L", [file]) * len(columns.names))
        self._rows = None

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Tensor]:
        return (self.row(index) for index in range(len(self)))

    def row(self, index: int) -> Tensor:
        """One row of the table as a record."""
        return Tensor(
            self.names[index], self.dtypes[index], self.shapes[index], self.nbytes[index],
            self.files[self.file_index[index]], self.offsets[index],
        )  # fmt: skip

    def get(self, name: str) -> Tensor | None:
        """The tensor of this name, or None. The first call builds an index of all names."""
        if self._rows is None:
            self._rows = {name: index for index, name in enumerate(self.names)}
        index = self._rows.get(name)
        return None if index is None else self.row(index)

    def shape(self, name: str) -> Shape | None:
        """The shape of the tensor of this name, or None."""
        tensor = self.get(name)
        return None if tensor is None else tensor.shape

    @property
    def total_bytes(self) -> int:
        """Stored bytes of all tensors."""
        return sum(self.nbytes)
