"""What the inspector hands on: an opened ``Checkpoint`` inside, an ``Inspection`` to everybody else."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ropewalk.findings import Finding
from ropewalk.inspector.layer_kinds import AnyLayer
from ropewalk.inspector.tensors import TensorTable
from ropewalk.pages import Paged

Format = Literal["safetensors", "gguf", "config"]
CheckpointKind = Literal["model", "adapter", "draft", "projector", "unknown"]
Source = Literal["tensor", "config", "gguf", "default", "derived", "assumed"]


@dataclass(frozen=True, slots=True)
class CheckpointFile:
    """A file that the checkpoint is made of, and its size."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint as opened: tensor columns, raw metadata, nothing derived yet.

    ``source`` is what the user asked for; ``path`` the local file or folder (None for the Hub).
    ``config`` is ``config.json`` as written (nested blocks kept, null kept apart from absent), empty
    for GGUF; ``gguf`` the key-value section of a GGUF file (long arrays as :class:`SkippedArray`).
    ``relatives`` holds the other JSON files by name (``generation_config.json``, ...).
    """

    source: str
    path: Path | None
    format: Format
    files: tuple[CheckpointFile, ...]
    tensors: TensorTable
    config: dict[str, Any] = field(default_factory=dict)
    gguf: dict[str, Any] = field(default_factory=dict)
    relatives: dict[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    revision: str | None = None


@dataclass(frozen=True, slots=True)
class SkippedArray:
    """A GGUF array that was walked over, not kept: its element type and length."""

    element_type: str
    length: int


@dataclass(frozen=True, slots=True)
class DtypeTotal:
    """What one dtype amounts to."""

    num_tensors: int
    bytes: int


@dataclass(frozen=True, slots=True)
class CheckpointSummary:
    """Size and kind of a checkpoint.

    ``parameters`` are logical: packed words unpacked, scales, zero points and masks not counted, a tied
    head counted once. ``stored_elements`` and ``tensor_bytes`` are those of the tensors in use.
    """

    source: str
    kind: CheckpointKind
    format: Format
    files: tuple[CheckpointFile, ...]
    num_tensors: int
    tensor_bytes: int
    stored_elements: int
    parameters: int | None
    dtypes: dict[str, DtypeTotal]


@dataclass(frozen=True, slots=True)
class Fact:
    """A value and where it comes from; ``detail`` names the tensor, key or rule. Unknown is None."""

    value: Any
    source: Source
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class BlockTensor:
    """A tensor of the typical block; ``name`` is relative to the block."""

    name: str
    shape: tuple[int, ...]
    parameters: int


@dataclass(frozen=True, slots=True)
class Block:
    """The most frequent block of the model and how its parameters divide."""

    parameters: int
    attention_parameters: int
    feed_forward_parameters: int
    tensors: tuple[BlockTensor, ...]


@dataclass(frozen=True, slots=True)
class NamedBytes:
    """Stored bytes of the tensors of one name; ``*`` in it stands for the block's number.

    ``nbytes[i]`` is the tensor of block ``blocks[i]``; outside of blocks it is empty, with one size.
    """

    name: str
    blocks: tuple[int, ...]
    nbytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Stored bytes by place; ``sum`` of the places is the checkpoint's ``tensor_bytes``.

    ``layers[i]`` is all of block i, ``experts[i]`` the part of it that routed experts take.
    ``output_head`` is 0 where the embedding serves as head and is stored once. ``tensors`` are the same bytes
    by name, for GGUF, whose tensors are placed by name; empty for other formats.
    """

    embedding: int
    output_head: int
    other: int
    layers: tuple[int, ...]
    experts: tuple[int, ...]
    mtp: int
    towers: int
    tensors: tuple[NamedBytes, ...] = ()

    @property
    def total(self) -> int:
        """Sum of all fields: the checkpoint's ``tensor_bytes``."""
        return self.embedding + self.output_head + self.other + sum(self.layers) + self.mtp + self.towers


@dataclass(frozen=True, slots=True)
class Inspection(Paged):
    """What a checkpoint is: the record that ``inspect`` prints and every plan starts from.

    ``layers`` groups the decoder's blocks by what each keeps; their ``indices`` together are
    0..num_hidden_layers-1. ``weights`` and ``block`` are None where no tensor was read (a bare config).
    """

    checkpoint: CheckpointSummary
    facts: dict[str, Fact]
    layers: tuple[AnyLayer, ...]
    block: Block | None
    weights: WeightBytes | None
    findings: tuple[Finding, ...]
    schema: str = "ropewalk.inspection/1"

    def value(self, name: str) -> Any:
        """The value of a fact; None where it is unknown or absent."""
        fact = self.facts.get(name)
        return None if fact is None else fact.value
