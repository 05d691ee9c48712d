"""What vLLM reports about its cache: the pool of a start, what one request needs, why it would stop.

The words of its log and of its start-up errors, for holding a plan against a running server and for judging
a command before it is started. Every figure of the pool has one formula, here: plans and ``check`` ask the
same functions, with the memory model of one request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ropewalk.planner.engines import vllm_versions as versions
from ropewalk.planner.engines.vllm_memory import VllmRanks
from ropewalk.planner.fit import largest
from ropewalk.planner.records import MemoryTerm
from ropewalk.planner.rope.versions import VersionRule, has
from ropewalk.planner.terms import CACHES
from ropewalk.units import format_bytes

_SIZE_FROM_CONCURRENCY = VersionRule(
    "size_from_concurrency",
    "vllm",
    (0, 21, 0),
    "the printed size in tokens is concurrency x length; before, the blocks were divided among the groups",
    "vLLM 0.32 v1/core/kv_cache_utils.py:2300; published logs of 0.20 and 0.21",
)
NULL_BLOCK_HELD = VersionRule(
    "null_block_held",
    "vllm",
    (0, 27, 0),
    "the block that is never handed out does not count when a request is held against the pool",
    "v1/core/kv_cache_utils.py of 0.26.0 and 0.29.0 (:2316)",
)
RefusalReason = Literal["no_memory", "length", "sequences"]


@dataclass(frozen=True, slots=True)
class Capacity:
    """``num_gpu_blocks``, ``kv_cache_size_tokens`` and ``kv_cache_max_concurrency`` of the server."""

    num_blocks: int
    tokens: int
    max_concurrency: float


@dataclass(frozen=True, slots=True)
class Available:
    """Bytes that a start leaves for the cache on the tightest rank; all equal where they are given."""

    low: int
    likely: int
    high: int


@dataclass(frozen=True, slots=True)
class StartPool:
    """The pool that a start takes: bytes on one rank, and what vLLM prints of it at both ends."""

    available: Available
    low: Capacity
    likely: Capacity
    high: Capacity


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why vLLM stops at start, in its own words; ``certain`` False where only the low end of the range
    refuses. ``longest`` is the length that it would name, None where it names none; ``figures`` are the
    numbers of the message."""

    reason: RefusalReason
    certain: bool
    message: str
    longest: int | None
    figures: dict[str, int]


def capacity(
    memory_model: VllmRanks,
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
    held = [(size, memory_model.bytes_per_block(number)) for number, size in enumerate(sizes)]
    return _capacity(
        memory_model,
        min((max(0, size) // each for size, each in held if each), default=0),
        context_len=context_len,
        engine_version=engine_version,
    )


def _capacity(
    memory_model: VllmRanks, num_blocks: int, *, context_len: int, engine_version: str | None
) -> Capacity:
    per_request = memory_model.request_blocks(context_len)
    concurrency = num_blocks / per_request if per_request else 0.0
    if has(_SIZE_FROM_CONCURRENCY, engine_version):
        tokens = int(concurrency * context_len)
    else:
        groups = max(1, len(memory_model.pool.groups))
        tokens = num_blocks // groups * memory_model.block_size * memory_model.request.decode_context_parallel
    return Capacity(num_blocks, tokens, concurrency)


def needed_bytes(memory_model: VllmRanks, context_len: int) -> int:
    """ "GiB KV cache is needed" of the start-up error: one request's blocks on the rank that pays most."""
    return memory_model.request_blocks(context_len) * max(
        memory_model.bytes_per_block(number) for number in range(len(memory_model.stages))
    )


def estimated_max_len(memory_model: VllmRanks, available: int, *, limit: int) -> int:
    """ "The estimated maximum model length": what one request may have of ``available`` bytes, 0 if none.

    Newer versions keep one block back: it is never handed out.
    """
    usable = available - _held_back(memory_model)
    found = largest(lambda length: needed_bytes(memory_model, length), usable, guess=limit)
    return min(found or 0, limit)


def _held_back(memory_model: VllmRanks) -> int:
    if not has(NULL_BLOCK_HELD, memory_model.request.engine_version):
        return 0
    return max(memory_model.bytes_per_block(number) for number in range(len(memory_model.stages)))


def available_bytes(memory_model: VllmRanks, context_len: int, num_sequences: int) -> tuple[Available, ...]:
    """ "Available KV cache memory" of each stage's rank; empty where the device's memory is not known.

    The bytes given by ``--kv-cache-memory-bytes``, on the CPU without them those that a plan gives; else the
    share of the device less weights, activations, what is not torch's and, from 0.21 on, the graphs.
    """
    stages = range(len(memory_model.stages))
    given = memory_model.request.kv_cache_memory_bytes
    if given is None and memory_model.device == "cpu":
        given = memory_model.planned_cache_bytes(context_len, num_sequences)
    if given is not None:
        return tuple(Available(given, given, given) for _ in stages)
    counts_graphs = has(versions.GRAPHS_IN_SHARE, memory_model.request.engine_version)
    left: dict[int, list[Available]] = {}
    for stage, share, terms in memory_model.rank_terms(context_len, num_sequences):
        if share is None:
            return ()
        beside = [term for term in terms if _counts(term, graphs=counts_graphs)]
        left.setdefault(stage, []).append(
            Available(
                low=share - sum(term.high_bytes for term in beside),
                likely=share - sum(term.bytes for term in beside),
                high=share - sum(term.low_bytes for term in beside),
            )
        )
    return tuple(_tightest(left[stage]) for stage in stages)


def _counts(term: MemoryTerm, *, graphs: bool) -> bool:
    return term.name not in CACHES and (graphs or term.name != "cuda_graphs")


def _tightest(ranks: Sequence[Available]) -> Available:
    return Available(
        *(min(getattr(rank, end) for rank in ranks) for end in ("low", "likely", "high")),
    )


def start_pool(memory_model: VllmRanks, context_len: int, num_sequences: int) -> StartPool | None:
    """The pool of a start with these settings; None where the device's memory is not known."""
    stages = available_bytes(memory_model, context_len, num_sequences)
    if not stages or not memory_model.pool.groups:
        return None
    version = memory_model.request.engine_version

    def made_of(end: str) -> Capacity:
        sizes = [getattr(stage, end) for stage in stages]
        return capacity(memory_model, sizes, context_len=context_len, engine_version=version)

    return StartPool(
        _tightest([_positive(stage) for stage in stages]), made_of("low"), made_of("likely"), made_of("high")
    )


def _positive(one: Available) -> Available:
    return Available(max(0, one.low), max(0, one.likely), max(0, one.high))


def start_refusal(memory_model: VllmRanks, context_len: int, num_sequences: int) -> Refusal | None:
    """Why vLLM would stop with these settings; None where it starts, or where nothing can be said.

    Judged as vLLM judges it: nothing left for the cache, one request of full length that the pool does not
    hold, more sequences than a hybrid's pool has blocks. ``num_sequences`` only sizes what is profiled.
    """
    pool = start_pool(memory_model, context_len, num_sequences)
    if pool is None:
        return None
    have, needed = pool.available, needed_bytes(memory_model, context_len)
    held = _held_back(memory_model)
    if have.low <= 0:
        return Refusal(
            "no_memory",
            have.high <= 0,
            "No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
            None,
            {"needed_bytes": needed, "available_bytes": have.likely},
        )
    if needed > have.low - held:
        certain = needed > have.high - held
        middle = have.high if certain else have.low
        longest = estimated_max_len(memory_model, middle, limit=context_len)
        return Refusal(
            "length",
            certain,
            f"To serve at least one request with the model's max seq len ({context_len}), "
            f"{format_bytes(needed)} KV cache is needed, which is larger than the available KV cache memory "
            f"({format_bytes(middle)})",
            longest,
            {"needed_bytes": needed, "available_bytes": middle, "max_context_len": longest},
        )
    return _too_many_sequences(memory_model, pool)


def _too_many_sequences(memory_model: VllmRanks, pool: StartPool) -> Refusal | None:
    """Each running sequence needs a state's block of its own where graphs are captured."""
    request = memory_model.request
    running = request.max_num_seqs
    if running is None or not has(versions.SEQUENCES_BY_BLOCKS, request.engine_version):
        return None
    states = any(group.state for group in memory_model.shape.layers)
    if memory_model.device == "cpu" or request.enforce_eager or not states or running <= pool.low.num_blocks:
        return None
    return Refusal(
        "sequences",
        running > pool.high.num_blocks,
        f"max_num_seqs ({running}) exceeds available Mamba cache blocks ({pool.likely.num_blocks})",
        None,
        {"max_num_seqs": running, "num_blocks": pool.likely.num_blocks},
    )
