"""The log of llama.cpp's server: sizes of buffers, cells of the cache, the reason of an end.

Lines as printed by b11434 with ``-lv 4`` (``src/llama-model.cpp``, ``llama-context.cpp``,
``llama-kv-cache.cpp``, ``llama-memory-recurrent.cpp``); at the default verbosity no size is printed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from ropewalk.serving.server_report import PrintedBuffer
from ropewalk.units import MIB

_TERMS = {
    "model": "weights",
    "KV": "kv_cache",
    "RS": "state",
    "output": "output_buffer",
    "compute": "compute_buffer",
}
_BUFFER = re.compile(
    r"(?<!\S)(\S{1,64})\s{1,64}(model|KV|RS|output|compute) buffer size (?:=|is)\s{1,16}"
    r"(\d{1,9}\.(\d{1,4})) MiB"
)
_CELLS = re.compile(r"size =\s{1,16}[\d.]{1,16} MiB \(\s{0,16}(\d{1,12}) cells")
_CACHE = re.compile(r"llama_(kv_cache|memory_recurrent): size =\s{1,16}(\d{1,9}\.(\d{1,4})) MiB")
_FREQ_SCALE = re.compile(r"llama_context: freq_scale\s{1,32}= ([\d.e+-]{1,32})")
_ERROR = re.compile(r"^(?:[\d.]+ )?E (?P<said>.*)")
# Without --log-prefix a line does not say its level; arguments and assertions never do.
_BARE_ERROR = re.compile(r"(?P<said>.*(?:\b(?:error|failed to|couldn't)\b|GGML_ASSERT|terminate called).*)")
# The abort that follows says more than the error about the connection before it (ggml-rpc.cpp:35).
_RPC_LOST = re.compile(r".*: (?P<said>Remote RPC server crashed .*)")
_ANSWER_ERROR = "send_error:"  # about one request, not about the server


@dataclass(frozen=True, slots=True)
class PrintedLog:
    """What a log tells. ``cells`` are those of the largest cache; what was not printed is None or absent."""

    buffers: tuple[PrintedBuffer, ...]
    cells: int | None
    freq_scale: float | None = None


def parse(lines: Iterable[str]) -> PrintedLog:
    """Read a whole log. Sizes are those of the last model and context made in it: a ``--fit`` pass prints
    its own before them. All that a draft brings is one term, ``draft_model``."""
    target, draft = _Made(), _Made()
    made, is_draft_next = target, False
    for line in lines:
        if "loading draft model" in line:
            is_draft_next = True
        elif "loading model tensors" in line:
            draft = _Made()
            if not is_draft_next:
                target = _Made()
            made, is_draft_next = draft if is_draft_next else target, False
        elif "constructing llama_context" in line:
            if made.has_context:  # of the same model: its MTP layers draft
                made = draft
            made.begin_context()
        else:
            made.read(line)
    drafted = (replace(buffer, name="draft_model") for buffer in draft.buffers)
    return PrintedLog((*target.buffers, *drafted), max(target.cells, default=None), target.freq_scale)


@dataclass(slots=True)
class _Made:
    """What is printed while a model and its context are made."""

    buffers: list[PrintedBuffer] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)
    freq_scale: float | None = None
    has_context: bool = False

    def begin_context(self) -> None:
        self.buffers = [buffer for buffer in self.buffers if buffer.name == "weights"]
        self.cells = []
        self.has_context = True

    def read(self, line: str) -> None:
        if match := _BUFFER.search(line):
            _add(self.buffers, _buffer(match))
        elif match := _CELLS.search(line):
            self.cells.append(int(match[1]))
        elif match := _FREQ_SCALE.search(line):
            self.freq_scale = float(match[1])


def parse_unallocated(lines: Iterable[str]) -> tuple[PrintedBuffer, ...]:
    """Sizes of a context that was made without allocating (``no_alloc``).

    Caches have buffers of 0 bytes then; their sizes are those of the line that also counts the cells, one per
    cache.
    """
    lines = list(lines)
    caches = [_cache(match) for line in lines if (match := _CACHE.search(line))]
    others = (buffer for buffer in parse(lines).buffers if buffer.name in ("output_buffer", "compute_buffer"))
    return (*caches, *others)


def root_error(lines: Sequence[str]) -> str | None:
    """The first error that the server logged about itself: later ones only say that it gave up."""
    for pattern in (_RPC_LOST, _ERROR, _BARE_ERROR):
        for line in lines:
            match = pattern.match(line)
            if match and _ANSWER_ERROR not in line:
                return match["said"].strip()
    return None


def _add(buffers: list[PrintedBuffer], buffer: PrintedBuffer) -> None:
    """A compute buffer is printed anew whenever it is reserved anew; of other kinds there may be several."""
    if buffer.name == "compute_buffer":
        buffers[:] = [
            other for other in buffers if (other.name, other.device) != (buffer.name, buffer.device)
        ]
    buffers.append(buffer)


def _cache(match: re.Match[str]) -> PrintedBuffer:
    kind, size, decimals = match.groups()
    return _printed("state" if kind == "memory_recurrent" else "kv_cache", "CPU", size, decimals)


def _buffer(match: re.Match[str]) -> PrintedBuffer:
    device, kind, size, decimals = match.groups()
    return _printed(_TERMS[kind], device, size, decimals)


def _printed(name: str, device: str, size: str, decimals: str) -> PrintedBuffer:
    return PrintedBuffer(
        name=name,
        device=device,
        bytes=round(Decimal(size) * MIB),
        rounding_bytes=math.ceil(MIB / 2 / 10 ** len(decimals)),
    )
