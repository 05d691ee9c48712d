"""What the log of somebody else's llama-server tells.

Lines as printed by llama.cpp b11434 (``src/llama-context.cpp``, at ``-lv 4``), and the table that every build
since b6700 prints at its end (``memory_breakdown_print``, common/common.cpp).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from ropewalk.checking.foreign_log import ForeignLog, last_match, typed_command
from ropewalk.planner.machine import DeviceKind
from ropewalk.serving.engines.llama_cpp import log as llama_log
from ropewalk.serving.server_report import PrintedBuffer
from ropewalk.units import MIB

MARKS = re.compile(
    r"\b(?:llama_context|llama_model_loader|load_tensors|llama_kv_cache\w{0,16}|llama_server|llama_model_load|"
    r"\w{0,8}memory_breakdown_print): |^srv {1,12}\w{1,40}: |\"fit_memory_breakdown\""
)
# ropewalk's own logs of the embedded engine begin with the command of its process.
COMMAND = r"(?:llama-server|python[\d.]* (?:-P )?-m ropewalk\.serving\.engines\.llama_cpp\.embedded)"
_KEPT = re.compile(
    r"buffer size|cells|llama_context|llama-server|llama_cpp\.embedded|build|memory_breakdown|"
    r"loading (?:draft )?model|loading model tensors|version: |MiB free\)"
)
_ERROR_LINES = 20_000
_BUILD = re.compile(
    r"\bbuild_info: (b[1-9]\d{0,7})|\bbuild: ([1-9]\d{0,7}) \(|"
    r"\bversion: ([1-9]\d{3,7}) \(|\bversion: [\w.-]{1,40} \(build ([1-9]\d{0,7})[,)]"
)
# "  - CUDA0   : NVIDIA GeForce RTX 4090 (24080 MiB, 23605 MiB free)", and the first column of the table.
_DEVICE_LINE = re.compile(r"- (\w{1,20}?)\s{0,20}: [^\n]{1,120}\((\d{2,7}) MiB, \d{1,7} MiB free\)")
_TOTAL = re.compile(
    r"memory_breakdown_print: \|\s{0,8}- (\w{1,20}) \([^|]{0,120}\)\s{0,60}\|\s{0,20}(\d{2,7}) ="
)
_NUMBER = r"llama_context: {}\s{{1,40}}= (\d{{1,12}})"
# |   - CUDA0 (RTX 4090) | 24077 = 20000 + ( 3950 =  3500 +     288 +     162) +         127 |
_BREAKDOWN = re.compile(
    r"memory_breakdown_print: \|\s{0,8}- ([^|(]{1,60}?)\s{0,60}(?:\([^|]{0,120}?\))?\s{0,60}\|[^|]{0,80}?"
    r"(\d{1,9}) =\s{1,12}(\d{1,9}) \+\s{1,12}(\d{1,9}) \+\s{1,12}(\d{1,9})"
)
_RECORD = '"fit_memory_breakdown"'
_CACHES = ("kv_cache", "state", "indexer_cache", "cross_attention_cache")
_GPU = re.compile(r"(?:CUDA|ROCm|HIP|Vulkan|SYCL|MUSA|Metal|MTL|CANN)\d{0,3}$")


def read(lines: Sequence[str]) -> ForeignLog:
    """The log of a server that printed one of :data:`MARKS`."""
    kept = [line for line in lines if _KEPT.search(line)]
    buffers = llama_log.parse(kept).buffers
    table = () if buffers else tuple(_breakdown(kept)) or tuple(_breakdown_records(kept))
    gpus = {buffer.device for buffer in buffers or table if _GPU.match(buffer.device)}
    build = last_match(_BUILD, kept)
    return ForeignLog(
        engine="llama-server",
        version=None if build is None else f"b{build.removeprefix('b')}",
        command=typed_command(kept, COMMAND),
        context_len=_number("n_ctx_(?:per_)?seq", kept),
        num_sequences=_number("n_seq_max", kept),
        cells=_number("n_ctx", kept),
        buffers=buffers or table,
        device=_device(buffers or table),
        memory_bytes=_memory(kept, gpus),
        device_count=max(len(gpus), 1),
        error=None if buffers or table else _error(lines),
        sums={"context": _CACHES} if table else {},
    )


def _breakdown(lines: Sequence[str]) -> Iterator[PrintedBuffer]:
    """Whole MiB per device: the model, the caches of its context, compute buffers. The last table counts."""
    rows: dict[str, tuple[str, ...]] = {}
    for line in lines:
        if "memory breakdown [MiB]" in line:
            rows = {}
        elif match := _BREAKDOWN.search(line):
            rows[match[1].strip()] = match.groups()[2:]
    for device, sizes in rows.items():
        for name, size in zip(("weights", "context", "compute_buffer"), sizes, strict=True):
            if int(size):
                yield PrintedBuffer(name, device, int(size) * MIB, MIB)


def _breakdown_records(lines: Sequence[str]) -> Iterator[PrintedBuffer]:
    """The same table as ``--log-jsonl`` prints it; the last one counts."""
    found: list[dict[str, Any]] = []
    for line in lines:
        if _RECORD in line:
            with suppress(ValueError, RecursionError, KeyError, TypeError):
                found = list(json.loads(line[line.index("{") :])["data"]["rows"])
    for row in found:
        for name, key in (("weights", "model"), ("context", "context"), ("compute_buffer", "compute")):
            size = row.get(key) if isinstance(row, dict) else None
            if isinstance(size, int) and size > 0:
                yield PrintedBuffer(name, str(row.get("name", ""))[:60], size * MIB, MIB)


def _memory(lines: Sequence[str], gpus: set[str]) -> int | None:
    """The size of the smallest of these devices, as the log lists them."""
    sizes = {
        found[1]: int(found[2]) * MIB
        for line in lines
        for found in (_DEVICE_LINE.search(line) or _TOTAL.search(line),)
        if found
    }
    return min((size for device, size in sizes.items() if device in gpus), default=None)


def _device(buffers: Sequence[PrintedBuffer]) -> DeviceKind | None:
    """A GPU where any buffer lies on one."""
    if any(_GPU.match(buffer.device) for buffer in buffers):
        return "gpu"
    return "cpu" if buffers else None


def _error(lines: Sequence[str]) -> str | None:
    first = next((number for number, line in enumerate(lines) if _speaks_of_error(line)), None)
    if first is None:
        return None
    return llama_log.root_error([line[:4096] for line in islice(lines, first, first + _ERROR_LINES)])


def _speaks_of_error(line: str) -> bool:
    return any(
        word in line for word in (" E ", "error", "failed", "couldn't", "GGML_ASSERT", "terminate", "RPC")
    )


def _number(name: str, lines: Sequence[str]) -> int | None:
    found = last_match(re.compile(_NUMBER.format(name)), lines)
    return None if found is None else int(found)
