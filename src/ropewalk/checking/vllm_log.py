"""What the log of somebody else's vLLM tells.

Lines as printed by 0.11 to 0.33 (``entrypoints/utils.py``, ``config/model.py``, ``v1/worker/gpu_worker.py``,
``v1/core/kv_cache_utils.py``, ``gpu_model_runner.py``, ``cpu_worker.py``, ``utils/mem_utils.py``), and those
of the engine before (0.6 to 0.8, ``worker/worker.py``).
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import islice
from typing import Any

from ropewalk.checking.flags import flag_set
from ropewalk.checking.foreign_log import ForeignLog, Pool, last_match, typed_command
from ropewalk.limits import MAX_LOG_LINE_CHARS
from ropewalk.serving.engines.vllm import log as vllm_log
from ropewalk.serving.server_report import PrintedBuffer
from ropewalk.units import GIB

MARKS = re.compile(
    r"vLLM API server version|non-default args: |Using max model len \d|\(EngineCore|LLM engine \(v\d|"
    r"# GPU blocks: \d|GPU KV cache size: \d|No available memory for the cache blocks"
)
COMMAND = r"vllm +serve"
_KEPT = re.compile(
    r"vLLM API|[▀▄█]|LLM engine|args: \{|max model len|max_model_len|KV [cC]ache|GiB|GB and|_tokens=|vllm"
)
_ERROR_LINES = 20_000  # behind the first error
_VERSION = re.compile(
    r"vLLM API server version (\d[\w.+]{0,40})|[▀▄█ ]version (\d[\w.+]{0,40})|LLM engine \(v([\w.+]{1,40})\)"
)
_ARGUMENTS = re.compile(r"non-default args: (\{.*\})")
_PAIR = re.compile(r"'(\w{1,64})': ('[^']{0,4096}'|-?\d{1,18}(?:\.\d{1,18})?|True|False)(?=[,}])")
_SECRET = frozenset({"api_key", "hf_token"})
_MODEL_LEN = re.compile(
    r"Using max model len (\d{1,12})\b|Auto-fit max_model_len: reduced from \d{1,12} to (\d{1,12})\b"
)
_BATCHED = re.compile(r"max_num_batched_tokens=(\d{1,12})\b")
_CELLS = re.compile(r"(CPU|GPU) KV cache size: (\d[\d,]{0,15}) tokens")
_SIZE = r"(\d{1,9}\.(\d{1,6})) ?Gi?B"
# Python's round(x, 2) writes the size: "1.0" is as exact as "0.47".
_POOL = re.compile(
    r"(?:Explicitly|Auto) set \((\d{1,9}\.\d{1,6})/[\d.]{1,16}\) GiB|"
    r"Available KV cache memory: (\d{1,9}\.\d{1,6}) GiB|reserved for KV Cache is (\d{1,9}\.\d{1,6})GiB"
)
_POOL_ROUNDING = GIB // 200
_DEVICE = re.compile(
    r"Free memory on device (?:cuda:\d{1,3} )?\([\d.]{1,12}/(\d{1,9}\.\d{1,6}) GiB\)|"
    r"total_gpu_memory \((\d{1,9}\.\d{1,6})GiB\)"
)
# Where several lines tell the same, the first of these that was printed counts; every rank prints its own.
_TERMS: dict[str, tuple[re.Pattern[str], ...]] = {
    name: tuple(map(re.compile, patterns))
    for name, patterns in {
        "weights": (
            rf"Model loading took {_SIZE}",
            rf"[Ll]oading model weights took {_SIZE}",
            rf"Actual usage is {_SIZE} for weight",
            rf"model weights take {_SIZE}",
            rf"weights memory: {_SIZE}",
        ),
        "activations": (
            rf"torch peak memory increase: {_SIZE}",
            rf" {_SIZE} for peak activation",
            rf"PyTorch activation peak memory takes {_SIZE}",
            rf"peak activation memory:? {_SIZE}",
        ),
        "process_overhead": (
            rf" {_SIZE} for non-torch memory",
            rf"non-torch forward increase memory: {_SIZE}",
            rf"non_torch_memory takes {_SIZE}",
        ),
        "cuda_graphs": (
            rf"Graph capturing finished in \S{{1,12}} secs?, took {_SIZE}",
            rf"CUDA graph pool memory: {_SIZE} \(actual\)",
            rf" {_SIZE} for CUDAGraph memory",
            rf"Estimated CUDA graph memory: {_SIZE}",
        ),
    }.items()
}
_ESTIMATED = re.compile(rf"Estimated CUDA graph memory: {_SIZE}|{_SIZE} \(estimated\)")
# From 0.27 on the weights and what is not torch's are printed as one figure, and the peak of activations has
# the estimated graphs in it (v1/worker/gpu_worker.py of 0.29, :601).
_CONSUMED = re.compile(
    rf"Actual usage is {_SIZE} for consumed memory|total consumed \(from mem_get_info\): {_SIZE}"
)
# "Model loading took" counts towers and drafts, which a plan has as terms of their own.
_SUMS = {"weights": ("weights", "projector", "draft_model")}


def read(lines: Sequence[str]) -> ForeignLog:
    """The log of a server that printed one of :data:`MARKS`."""
    kept = [line for line in lines if _KEPT.search(line)]
    cells = [match for line in kept if (match := _CELLS.search(line))]
    length, pool, total = last_match(_MODEL_LEN, kept), last_match(_POOL, kept), last_match(_DEVICE, kept)
    batched, device = last_match(_BATCHED, kept), last_match(re.compile(r"(CPU|GPU) KV cache size"), kept)
    return ForeignLog(
        engine="vllm",
        version=last_match(_VERSION, kept),
        command=typed_command(kept, COMMAND) or _arguments(kept),
        context_len=int(length) if length else None,
        num_sequences=None,
        cells=int(cells[-1][2].replace(",", "")) if cells else None,
        buffers=tuple(_settled(list(_buffers(kept)), kept)),
        finds_pool=True,
        pool=Pool(round(Decimal(pool) * GIB), _POOL_ROUNDING) if pool else None,
        device="cpu" if device == "CPU" else "gpu" if device or total else None,
        error=None if cells else _error(lines),
        batched_tokens=int(batched) if batched else None,
        memory_bytes=round(Decimal(total) * GIB) if total else None,
        sums=_SUMS,
    )


def _buffers(lines: Sequence[str]) -> Iterator[PrintedBuffer]:
    for name, patterns in _TERMS.items():
        for pattern in patterns:
            found = [match for line in lines if (match := pattern.search(line))]
            for rank, match in enumerate(found):
                yield PrintedBuffer(
                    name=name,
                    device=f"rank {rank}",
                    bytes=round(Decimal(match[1]) * GIB),
                    rounding_bytes=math.ceil(GIB / 2 / 10 ** len(match[2])),
                )
            if found:
                break


def _settled(buffers: list[PrintedBuffer], lines: Sequence[str]) -> Iterator[PrintedBuffer]:
    """The buffers with what a version prints as one figure taken apart."""
    names = {buffer.name for buffer in buffers}
    graphs = _size(_ESTIMATED, lines)
    printed = "\n".join(lines)
    summed = "for consumed memory" in printed and "torch peak memory increase" not in printed
    for buffer in buffers:
        taken = graphs if graphs and summed and buffer.name == "activations" else 0
        yield replace(buffer, bytes=buffer.bytes - taken) if taken < buffer.bytes else buffer
    consumed = _size(_CONSUMED, lines)
    weights = next((buffer for buffer in buffers if buffer.name == "weights"), None)
    if consumed and weights is not None and "process_overhead" not in names:
        rest, rounding = max(consumed - weights.bytes, 0), 2 * weights.rounding_bytes
        yield PrintedBuffer("process_overhead", weights.device, rest, rounding)


def _size(pattern: re.Pattern[str], lines: Sequence[str]) -> int | None:
    """The first figure of a kind, in bytes."""
    match = next((found for line in lines if (found := pattern.search(line))), None)
    text = match and next((group for group in match.groups() if group and "." in group), None)
    return round(Decimal(text) * GIB) if text else None


def _error(lines: Sequence[str]) -> str | None:
    """The first cause, looked for from the first line that speaks of an error on."""
    first = next((number for number, line in enumerate(lines) if "rror" in line or "xception" in line), None)
    if first is None:
        return None
    window = list(islice(lines, max(first - 1, 0), first + _ERROR_LINES))
    return vllm_log.root_error([_without_level(line) for line in window])


def _without_level(line: str) -> str:
    """``ERROR 11-30 12:00:01 [core.py:700] `` of a process that does not name itself."""
    return re.sub(r"^[A-Z]{4,8} [\d-]{5,10} [\d:.,]{8,15} (?:\[[^\]]{1,80}\] ?)?", "", line, count=1)


def _arguments(lines: Sequence[str]) -> tuple[str, ...] | None:
    """The command that vLLM's own line of arguments resolves to; secrets in it are left out."""
    text = last_match(_ARGUMENTS, lines)
    if text is None or len(text) > MAX_LOG_LINE_CHARS:
        return None
    given = _literal(text)
    if given is None:  # an object's repr is no literal
        given = _plain_pairs(text)
    if not isinstance(given, dict) or not given:
        return None
    model = given.get("model_tag") or given.get("model")
    return ("vllm", "serve", *([str(model)] if model else []), *_flags(given))


def _literal(text: str) -> Any:
    """The value of a literal of Python; None for anything else."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _plain_pairs(text: str) -> dict[str, Any]:
    """The options of a dict that holds objects too: those with a plain value."""
    known = flag_set("vllm").known
    named = (
        (match[1], _literal(match[2]))
        for match in _PAIR.finditer(text)
        if match[1] in ("model_tag", "model") or f"--{match[1].replace('_', '-')}" in known
    )
    return {name: value for name, value in named if value is not None}


def _flags(given: Mapping[Any, Any]) -> Iterator[str]:
    for name, value in given.items():
        if not isinstance(name, str) or name in ("model_tag", "model") or name in _SECRET or value is None:
            continue
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
        elif isinstance(value, list | tuple):
            yield from (f"--{flag}", *map(str, value))
        else:
            yield from (f"--{flag}", _json(value) if isinstance(value, dict) else str(value))


def _json(value: Mapping[Any, Any]) -> str:
    """JSON, of what is none its text."""
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):
        return str(value)
