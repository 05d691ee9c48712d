"""Lists of records, as the command line and the HTTP service give them."""

from __future__ import annotations

from dataclasses import dataclass, field

from ropewalk.findings import Finding
from ropewalk.inspector.records import Format
from ropewalk.inspector.tensors import Tensor
from ropewalk.measuring.store import RunSummary
from ropewalk.serving.process.detached import DetachedServer
from ropewalk.serving.process.leftovers import Leftovers


@dataclass(frozen=True, slots=True)
class TensorList:
    """The tensors that were asked for, in the order that was asked for; ``tensor_bytes`` is their sum."""

    source: str
    format: Format
    num_tensors: int
    tensor_bytes: int
    tensors: tuple[Tensor, ...]
    findings: tuple[Finding, ...]
    schema: str = "ropewalk.tensors/1"


@dataclass(frozen=True, slots=True)
class RunList:
    """The runs in the file ``store``, the newest first."""

    store: str
    runs: tuple[RunSummary, ...]
    schema: str = "ropewalk.runs/1"


@dataclass(frozen=True, slots=True)
class ServerList:
    """The servers that were left running, the oldest first, and what killed ones left behind."""

    servers: tuple[DetachedServer, ...]
    leftovers: Leftovers = field(default_factory=Leftovers)
    schema: str = "ropewalk.servers/1"
