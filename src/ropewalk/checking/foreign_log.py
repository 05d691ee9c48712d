"""The log of a server that somebody else started: which engine, with what command, what it printed.

Lines as printed by llama.cpp b11434 (``src/llama-context.cpp``, at ``-lv 4``) and vLLM 0.32.0
(``entrypoints/utils.py``, ``config/model.py``, ``v1/core/kv_cache_utils.py``, ``v1/worker/cpu_worker.py``).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal

from ropewalk.errors import UsageError
from ropewalk.serving.engines.llama_cpp import log as llama_log
from ropewalk.serving.engines.vllm import log as vllm_log
from ropewalk.serving.server_report import PrintedBuffer
from ropewalk.units import GIB, MIB

_MOST_BYTES = 64 * MIB  # what matters is at the start; the rest are requests
_MOST_ARGUMENTS = 1 << 16
_LLAMA = re.compile(r"\b(?:llama_context|llama_model_loader|load_tensors|llama_kv_cache|llama_server): ")
_VLLM = re.compile(r"vLLM API server version|non-default args: |Using max model len \d|\(EngineCore")
_COMMAND = re.compile(r"^\s*(?:[$#+>] *)?((?:\w+=\S+ +)*(?:\S*/)?(?:llama-server|vllm +serve) .+)$")
_BUILD = re.compile(r"\bbuild_info: (b[1-9]\d*)|\bbuild: ([1-9]\d*) \(")
_VERSION = re.compile(
    r"vLLM API server version (\d[\w.+]*)|[▀▄█ ]version (\d[\w.+]*)|LLM engine \(v([\w.+]+)\)"
)
_ARGUMENTS = re.compile(r"non-default args: (\{.*\})")
_SECRET = frozenset({"api_key", "hf_token"})
_LLAMA_NUMBER = r"llama_context: {}\s+= (\d+)"
_MODEL_LEN = re.compile(r"Using max model len (\d+)|Auto-fit max_model_len: reduced from \d+ to (\d+)")
_CELLS = re.compile(r"(CPU|GPU) KV cache size: ([\d,]+) tokens")
# Python's round(x, 2) writes the size: "1.0" is as exact as "0.47".
_POOL = re.compile(
    r"(?:Explicitly|Auto) set \((\d+\.\d+)/[\d.]+\) GiB|Available KV cache memory: (\d+\.\d+) GiB"
)
_POOL_ROUNDING = GIB // 200


@dataclass(frozen=True, slots=True)
class Pool:
    """The memory that vLLM took for its KV cache on one rank, within ``rounding_bytes``."""

    bytes: int
    rounding_bytes: int


@dataclass(frozen=True, slots=True)
class ForeignLog:
    """What a log tells; what it does not is None.

    ``context_len`` is tokens per sequence, ``cells`` the tokens that the KV cache holds in all. ``device``
    is where vLLM has its cache.
    """

    engine: Literal["vllm", "llama-server"]
    version: str | None
    command: tuple[str, ...] | None
    context_len: int | None
    num_sequences: int | None
    cells: int | None
    buffers: tuple[PrintedBuffer, ...]
    pool: Pool | None = None
    device: Literal["cpu", "gpu"] | None = None
    error: str | None = None


def open_log(path: Path) -> ForeignLog:
    """Read a log's first 64 MiB. Raises :class:`UsageError` for none, and for that of another program."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}", where={"file": str(path)}) from error
    lines = data.decode("utf-8", "replace").splitlines()
    if any(_VLLM.search(line) for line in lines):
        return _vllm(lines)
    if any(_LLAMA.search(line) for line in lines):
        return _llama(lines)
    raise UsageError(
        f"{path} is no log of vLLM or llama-server, or was printed without sizes (llama-server: -lv 4)",
        code="log_not_recognised",
        where={"file": str(path)},
    )


def _llama(lines: Sequence[str]) -> ForeignLog:
    printed = llama_log.parse(lines)
    build = _last(_BUILD, lines)
    return ForeignLog(
        engine="llama-server",
        version=None if build is None else f"b{build.removeprefix('b')}",
        command=_typed(lines),
        context_len=_llama_number("n_ctx_seq", lines),
        num_sequences=_llama_number("n_seq_max", lines),
        cells=_llama_number("n_ctx", lines),
        buffers=printed.buffers,
        error=llama_log.root_error(lines) if not printed.buffers else None,
    )


def _vllm(lines: Sequence[str]) -> ForeignLog:
    cells = [match for line in lines if (match := _CELLS.search(line))]
    length, pool = _last(_MODEL_LEN, lines), _last(_POOL, lines)
    return ForeignLog(
        engine="vllm",
        version=_last(_VERSION, lines),
        command=_typed(lines) or _arguments(lines),
        context_len=int(length) if length else None,
        num_sequences=None,
        cells=int(cells[-1][2].replace(",", "")) if cells else None,
        buffers=tuple(buffer for buffer in vllm_log.parse(lines) if buffer.name == "weights"),
        pool=Pool(round(Decimal(pool) * GIB), _POOL_ROUNDING) if pool else None,
        device={"CPU": "cpu", "GPU": "gpu"}[cells[-1][1]] if cells else None,  # type: ignore[arg-type]
        error=None if cells else vllm_log.root_error(lines),
    )


def _typed(lines: Sequence[str]) -> tuple[str, ...] | None:
    """The command where a shell or a wrapper printed it, as one string."""
    found = _last(_COMMAND, lines)
    return None if found is None else (found,)


def _arguments(lines: Sequence[str]) -> tuple[str, ...] | None:
    """The command that vLLM's own line of arguments comes to; secrets in it are left out."""
    text = _last(_ARGUMENTS, lines)
    if text is None or len(text) > _MOST_ARGUMENTS:
        return None
    try:
        given = ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):  # an object's repr is no literal
        return None
    model = given.get("model_tag") or given.get("model")
    return ("vllm", "serve", *([str(model)] if model else []), *_flags(given))


def _flags(given: Mapping[str, Any]) -> Iterator[str]:
    for name, value in given.items():
        flag = name.replace("_", "-")
        if name in ("model_tag", "model") or name in _SECRET or value is None:
            continue
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
        elif isinstance(value, list | tuple):
            yield from (f"--{flag}", *map(str, value))
        else:
            yield from (f"--{flag}", json.dumps(value) if isinstance(value, dict) else str(value))


def _llama_number(name: str, lines: Sequence[str]) -> int | None:
    found = _last(re.compile(_LLAMA_NUMBER.format(name)), lines)
    return None if found is None else int(found)


def _last(pattern: re.Pattern[str], lines: Sequence[str]) -> str | None:
    """The group that matched, in the last line that does: a ``--fit`` pass prints its own before."""
    matches = [match for line in lines if (match := pattern.search(line))]
    return next((group for group in matches[-1].groups() if group), None) if matches else None
