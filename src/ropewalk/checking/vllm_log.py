"""What the log of somebody else's vLLM tells.

Lines as printed by vLLM 0.32.0 (``entrypoints/utils.py``, ``config/model.py``, ``v1/core/kv_cache_utils.py``,
``v1/worker/cpu_worker.py``).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from ropewalk.checking.foreign_log import ForeignLog, Pool, last_match, typed_command
from ropewalk.serving.engines.vllm import log as vllm_log
from ropewalk.units import GIB

MARKS = re.compile(r"vLLM API server version|non-default args: |Using max model len \d|\(EngineCore")
COMMAND = r"vllm +serve"
_MOST_ARGUMENTS = 1 << 16
_VERSION = re.compile(
    r"vLLM API server version (\d[\w.+]*)|[▀▄█ ]version (\d[\w.+]*)|LLM engine \(v([\w.+]+)\)"
)
_ARGUMENTS = re.compile(r"non-default args: (\{.*\})")
_SECRET = frozenset({"api_key", "hf_token"})
_MODEL_LEN = re.compile(r"Using max model len (\d+)|Auto-fit max_model_len: reduced from \d+ to (\d+)")
_CELLS = re.compile(r"(CPU|GPU) KV cache size: ([\d,]+) tokens")
# Python's round(x, 2) writes the size: "1.0" is as exact as "0.47".
_POOL = re.compile(
    r"(?:Explicitly|Auto) set \((\d+\.\d+)/[\d.]+\) GiB|Available KV cache memory: (\d+\.\d+) GiB"
)
_POOL_ROUNDING = GIB // 200


def read(lines: Sequence[str]) -> ForeignLog:
    """The log of a server that printed one of :data:`MARKS`."""
    cells = [match for line in lines if (match := _CELLS.search(line))]
    length, pool = last_match(_MODEL_LEN, lines), last_match(_POOL, lines)
    return ForeignLog(
        engine="vllm",
        version=last_match(_VERSION, lines),
        command=typed_command(lines, COMMAND) or _arguments(lines),
        context_len=int(length) if length else None,
        num_sequences=None,
        cells=int(cells[-1][2].replace(",", "")) if cells else None,
        buffers=tuple(buffer for buffer in vllm_log.parse(lines) if buffer.name == "weights"),
        finds_pool=True,
        pool=Pool(round(Decimal(pool) * GIB), _POOL_ROUNDING) if pool else None,
        device={"CPU": "cpu", "GPU": "gpu"}[cells[-1][1]] if cells else None,  # type: ignore[arg-type]
        error=None if cells else vllm_log.root_error(lines),
    )


def _arguments(lines: Sequence[str]) -> tuple[str, ...] | None:
    """The command that vLLM's own line of arguments comes to; secrets in it are left out."""
    text = last_match(_ARGUMENTS, lines)
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
