"""What each rank of a vLLM server holds: weights, blocks of the pool, what is profiled beside them.

Rules of vLLM 0.32 (November 2026) unless a line says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ropewalk.planner.caches import CacheType
from ropewalk.planner.engines.vllm_estimates import (
    Profile,
    activations,
    cpu_activations,
    graphs,
    latent_workspace,
    non_torch,
    process_overhead,
)
from ropewalk.planner.engines.vllm_pool import Pool
from ropewalk.planner.engines.vllm_ranks import RankKind, place_ranks
from ropewalk.planner.engines.vllm_settings import (
    batched_tokens,
    budgets_of,
    dtype_bytes_of,
    requested_bytes,
    running_sequences,
    utilization,
)
from ropewalk.planner.engines.vllm_speculation import Speculation
from ropewalk.planner.machine import DeviceKind, Machine
from ropewalk.planner.parallel import replica_sequences
from ropewalk.planner.records import Basis, MemoryTerm, PlanRequest, RankPlace
from ropewalk.planner.shape import ModelShape
from ropewalk.planner.terms import CACHES, DeviceMemory, exact


@dataclass(frozen=True, slots=True)
class Step:
    """What a length and a number of sequences need: blocks of each group for one replica, tokens of one
    step, and the workspace of latent attention."""

    blocks: list[int]
    sequences: int
    running: int
    batched: int
    workspace: int


@dataclass(frozen=True, slots=True)
class VllmRanks:
    """What does not depend on length and number of sequences.

    ``kinds`` has every rank, ``alike`` each kind once. ``stages`` are the layers of each stage,
    ``pool_stages`` with a draft's behind those of the last; ``weights`` the terms of what does not grow.
    """

    shape: ModelShape
    request: PlanRequest
    machine: Machine
    device: DeviceKind
    cache_type: CacheType
    stages: tuple[tuple[int, int], ...]
    block_size: int
    pool: Pool
    pool_stages: tuple[tuple[int, int], ...]
    weights: dict[RankKind, tuple[MemoryTerm, ...]]
    kinds: tuple[RankKind, ...]
    alike: tuple[RankKind, ...]
    sequence_state_bytes: int
    steps_at_once: int
    speculation: Speculation | None
    host: tuple[DeviceMemory, ...]

    def in_flight(self, context_len: int, batched: int) -> int:
        """Tokens scheduled and not yet settled: those of every step that may run at once.

        Latent attention on a CPU prefills whole prompts.
        """
        if self.device == "cpu" and any(group.kind == "latent" for group in self.shape.layers):
            return context_len
        return batched * self.steps_at_once

    def bytes_per_block(self, number: int) -> int:
        """Bytes of one block on each rank of a stage."""
        return self.pool.bytes_per_block(self.pool_stages[number])

    def request_blocks(self, context_len: int) -> int:
        """Blocks that one request of this length may claim."""
        batched = batched_tokens(self.request, self.machine, shape=self.shape, context_len=context_len)
        return self.pool.request_blocks(context_len, self.in_flight(context_len, batched))

    def rank_terms(
        self, context_len: int, num_sequences: int
    ) -> Iterator[tuple[int, int | None, tuple[MemoryTerm, ...]]]:
        """Of each kind of rank its stage, its share of the device's memory (None where that is not known)
        and its terms."""
        step = self.step_of(context_len, num_sequences)
        for kind in self.alike:
            share = kind.usable_bytes
            if share is None and self.machine.memory_bytes is not None:
                share = requested_bytes(self.machine.memory_bytes, utilization(self.request))
            yield kind.stage, share, self.terms_of(kind, step)

    def planned_cache_bytes(self, context_len: int, num_sequences: int) -> int:
        """Caches of the rank that holds most: what a plan gives each rank where bytes are given."""
        return max(
            sum(term.bytes for term in terms if term.name in CACHES)
            for _, _, terms in self.rank_terms(context_len, num_sequences)
        )

    def step_of(self, context_len: int, num_sequences: int) -> Step:
        batched = batched_tokens(
            self.request,
            self.machine,
            shape=self.shape,
            context_len=context_len,
            num_sequences=num_sequences,
        )
        sequences = replica_sequences(self.request, num_sequences)
        blocks = self.pool.group_blocks(context_len, self.in_flight(context_len, batched))
        running = running_sequences(self.request, num_sequences)
        workspace = latent_workspace(
            self.shape, context_len=context_len, num_sequences=running, block_size=self.block_size
        )
        return Step(blocks, sequences, running, batched, workspace)

    def terms_of(self, kind: RankKind, step: Step) -> tuple[MemoryTerm, ...]:
        """The terms of a rank of this kind."""
        caches = self._caches(self.pool_stages[kind.stage], step.blocks, step.sequences)
        return (*self.weights[kind], *caches, *self._beside(kind, step))

    def _beside(self, kind: RankKind, step: Step) -> tuple[MemoryTerm, ...]:
        """What a rank holds beside weights and caches."""
        profile = self._profile(kind, step)
        if self.device == "gpu":
            peak = activations(self.shape, profile)
            return peak, graphs(self.shape, profile), non_torch(profile)
        process = process_overhead(
            self.shape,
            self.device,
            serves=kind.serves,
            joins=kind.joins,
            balances=kind.leads and self.request.data_parallel > 1,
        )
        return cpu_activations(self.shape, profile), process

    def _profile(self, kind: RankKind, step: Step) -> Profile:
        first, last = self.stages[kind.stage]
        return Profile(
            version=self.request.engine_version,
            tokens=step.batched,
            sequences=step.running,
            dtype_bytes=dtype_bytes_of(self.shape, self.request),
            tensor_parallel=self.request.tensor_parallel,
            pipeline_parallel=self.request.pipeline_parallel,
            num_layers=last - first,
            samples=kind.stage == len(self.stages) - 1,
            workspace=step.workspace,
            hopper=self.machine.is_hopper,
            multiprocessors=self.machine.multiprocessors,
            eager=self.request.enforce_eager,
            towers=bool(self.shape.projector_bytes) and not self.request.language_model_only,
            speculation=self.speculation,
            adapters=self.request.lora > 0,
        )

    def with_blocks(self, terms: dict[RankKind, tuple[MemoryTerm, ...]]) -> list[RankPlace]:
        """The places with the blocks that each rank has room for beside everything else."""
        blocks = {kind: self._blocks(kind, held) for kind, held in terms.items()}
        places = place_ranks(self.shape, self.request, budgets_of(self.request, self.machine))
        return [replace(place, blocks=blocks[kind]) for place, kind in zip(places, self.kinds, strict=True)]

    def _blocks(self, kind: RankKind, terms: tuple[MemoryTerm, ...]) -> int | None:
        each = self.bytes_per_block(kind.stage)
        if kind.usable_bytes is None or not each:
            return None
        beside = sum(term.high_bytes for term in terms if term.name not in CACHES)
        return max(0, kind.usable_bytes - beside) // each

    def _caches(self, stage: tuple[int, int], blocks: list[int], num_sequences: int) -> list[MemoryTerm]:
        counts = [count * num_sequences for count in blocks]
        alone = len(counts) == 1
        sizes = self.pool.cache_bytes(stage, [counts[0] + 1] if alone else counts)
        if len(counts) > 1:
            sizes["kv_cache"] = sizes.get("kv_cache", 0) + self.pool.bytes_per_block(stage)
        source = f"blocks of {self.block_size} tokens and one null block"
        basis: Basis = "estimate" if self.shape.pools_tokens else "engine_rule"
        return [exact(name, size, source, basis=basis) for name, size in sizes.items()]


def pool_stages_of(shape: ModelShape, stages: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """The layers of each stage in the pool; the last holds the draft's as well."""
    drafts = sum(group.count for group in shape.draft.layers) if shape.draft else 0
    first, last = stages[-1]
    return (*stages[:-1], (first, last + drafts))
