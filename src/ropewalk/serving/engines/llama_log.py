"""The log of llama.cpp's server: sizes of buffers, cache cells, warnings about the context, root errors.

Lines as printed by b11434 with ``-lv 4`` (``src/llama-model.cpp``, ``llama-context.cpp``,
``llama-kv-cache.cpp``, ``llama-memory-recurrent.cpp``); at the default verbosity no size is printed.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

from ropewalk.findings import Finding
from ropewalk.serving.report import PrintedBuffer, PrintedLog
from ropewalk.units import MIB

_TERMS = {
    "model": "weights",
    "KV": "kv_cache",
    "RS": "state",
    "output": "output_buffer",
    "compute": "compute_buffer",
}
_BUFFER = re.compile(r"(\S+)\s+(model|KV|RS|output|compute) buffer size (?:=|is)\s+(\d+\.(\d+)) MiB")
_CELLS = re.compile(r"size =\s+[\d.]+ MiB \(\s*(\d+) cells")
_SLOT = re.compile(r"new slot, n_ctx = (\d+)")
_CAPPED = re.compile(r"slot context \((\d+)\) exceeds the training context of the model \((\d+)\)")
_ERROR = re.compile(r"^(?:[\d.]+ )?E (?P<said>.*)|^(?P<bare>error[: ].*|.*GGML_ASSERT.*|terminate called.*)")
_ANSWER_ERROR = "send_error:"  # about one request, not about the server


def parse(lines: Iterable[str]) -> PrintedLog:
    """Read a whole log. Sizes are those of the last model and context made in it: a ``--fit`` pass prints
    its own before them."""
    buffers: list[PrintedBuffer] = []
    cells: list[int] = []
    context_len: int | None = None
    findings: list[Finding] = []
    for line in lines:
        if "loading model tensors" in line:
            buffers = []
        elif "constructing llama_context" in line:
            buffers = [buffer for buffer in buffers if buffer.name == "weights"]
            cells = []
        elif match := _BUFFER.search(line):
            _add(buffers, _buffer(match))
        elif match := _CELLS.search(line):
            cells.append(int(match[1]))
        elif match := _SLOT.search(line):
            context_len = int(match[1])
        elif match := _CAPPED.search(line):
            findings.append(_capped(match))
    return PrintedLog(
        buffers=tuple(buffers),
        context_len=context_len,
        cells=max(cells, default=None),
        findings=tuple(findings),
    )


def root_error(lines: Sequence[str]) -> str | None:
    """The first error that the server logged about itself: later ones only say that it gave up."""
    for line in lines:
        match = _ERROR.match(line)
        if match and _ANSWER_ERROR not in line:
            return (match["said"] or match["bare"]).strip()
    return None


def _add(buffers: list[PrintedBuffer], buffer: PrintedBuffer) -> None:
    """A compute buffer is printed anew whenever it is reserved anew; of other kinds there may be several."""
    if buffer.name == "compute_buffer":
        buffers[:] = [
            other for other in buffers if (other.name, other.device) != (buffer.name, buffer.device)
        ]
    buffers.append(buffer)


def _buffer(match: re.Match[str]) -> PrintedBuffer:
    device, kind, size, decimals = match.groups()
    return PrintedBuffer(
        name=_TERMS[kind],
        device=device,
        bytes=round(Decimal(size) * MIB),
        rounding_bytes=math.ceil(MIB / 2 / 10 ** len(decimals)),
    )


def _capped(match: re.Match[str]) -> Finding:
    asked, served = int(match[1]), int(match[2])
    return Finding(
        code="slot_context_capped",
        severity="error",
        message=f"the server caps each sequence at {served} tokens, the length that the checkpoint declares, "
        f"and keeps a cache for {asked}",
        where={"flag": "-c", "asked": asked, "served": served},
    )
