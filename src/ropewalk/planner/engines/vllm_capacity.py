"""What vLLM reports about its cache: blocks and tokens of a given memory, what one request needs.

The words of its log and of its start-up error, for holding a plan against a running server.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ropewalk.planner.engines.vllm import VllmMemoryModel
from ropewalk.planner.fit import largest
from ropewalk.planner.rope.versions import VersionRule, has

_SIZE_FROM_CONCURRENCY = VersionRule(
    "size_from_concurrency",
    "vllm",
    (0, 21, 0),
    "the printed size in tokens is concurrency x length; before, the blocks were divided among the groups",
    "vLLM 0.32 v1/core/kv_cache_utils.py:2300; published logs of 0.20 and 0.21",
)


@dataclass(frozen=True, slots=True)
class Capacity:
    """``num_gpu_blocks``, ``kv_cache_size_tokens`` and ``kv_cache_max_concurrency`` of the server."""

    num_blocks: int
    tokens: int
    max_concurrency: float


def capacity(
    memory_model: VllmMemoryModel,
    available: int | Sequence[int],
    *,
    context_len: int,
    engine_version: str | None = None,
) -> Capacity:
    """What a server makes of so many bytes for its cache on every rank, or on the ranks of each stage.

    All ranks take the fewest blocks that any of them can hold. ``engine_version`` decides what is
    printed as the size in tokens.
    """
    sizes = [available] * len(memory_model.stages) if isinstance(available, int) else available
    num_blocks = min(size // memory_model.bytes_per_block(number) for number, size in enumerate(sizes))
    per_request = memory_model.request_blocks(context_len)
    concurrency = num_blocks / per_request
    if has(_SIZE_FROM_CONCURRENCY, engine_version):
        tokens = int(concurrency * context_len)
    else:
        tokens = num_blocks // len(memory_model.pool.groups) * memory_model.block_size
    return Capacity(num_blocks, tokens, concurrency)


def needed_bytes(memory_model: VllmMemoryModel, context_len: int) -> int:
    """ "GiB KV cache is needed" of the start-up error: one request's blocks on the rank that pays most."""
    return memory_model.request_blocks(context_len) * max(
        memory_model.bytes_per_block(number) for number in range(len(memory_model.stages))
    )


def estimated_max_len(memory_model: VllmMemoryModel, available: int, *, limit: int) -> int:
    """ "The estimated maximum model length": what one request may have of ``available`` bytes, 0 if none.

    One block stays back: it is never handed out (vLLM 0.32, v1/core/kv_cache_utils.py:2627).
    """
    usable = available - max(
        memory_model.bytes_per_block(number) for number in range(len(memory_model.stages))
    )
    found = largest(lambda length: needed_bytes(memory_model, length), usable, guess=limit)
    return min(found or 0, limit)
