"""What is asked of the planner and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ropewalk.engines import EngineBuild, EngineName
from ropewalk.errors import UsageError
from ropewalk.findings import Finding, has_error
from ropewalk.pages import Paged

Basis = Literal["exact", "engine_rule", "dry_run", "estimate"]
RopeDecisionKind = Literal["none", "scale", "builtin", "refuse"]
FlashAttention = Literal["on", "off", "auto"]
FitGoal = Literal["asked", "nodes", "gpu_layers", "cpu_moe"]
SplitMode = Literal["layer", "none", "row", "tensor"]
LimitedBy = Literal["memory", "config", "publisher"] | None
WayOutKind = Literal[
    "cache_type", "tensor_parallel", "gpu_layers", "cpu_moe", "memory", "num_sequences", "context_len",
    "weights",
]  # fmt: skip
AdviceKind = Literal["layers", "split", "replicas", "context_parallel"]


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a user wants to serve.

    ``context_len`` is tokens per sequence (prompt and answer together), 0 for the longest that is allowed,
    ``num_sequences`` how many such sequences are held at once. ``memory_bytes`` is the budget per device,
    None for "as much as there is, say what it takes". ``arm`` chooses the rope: ``auto`` decides,
    ``shipped`` changes nothing, ``yarn:F`` forces a factor, ``unscaled`` lifts the limit without scaling (to
    measure what that does). None means the engine's own default for ``batch``, ``ubatch``,
    ``max_batched_tokens``.
    ``gpu_layers``, ``cache_ram_bytes`` (limit of the prompt cache in host memory) and
    ``context_checkpoints`` are llama-server's, which the planned command switches off unless asked for;
    ``gpu_layers`` None puts all layers on the GPU where one is planned for. ``n_cpu_moe`` keeps the routed
    experts of so many first blocks on the host, ``cpu_moe`` those of all; ``override_tensor`` are
    ``PATTERN=BUFFER`` rules for the names of tensors, the first that matches wins; ``split_mode`` and
    ``main_gpu`` are as in llama-server. ``mtp`` is how many tokens the
    checkpoint's own MTP layers draft per step, 0 for none, ``draft`` a smaller checkpoint that drafts,
    ``projector`` a file with the tower of a model that sees or hears (llama-server).

    vLLM's own: ``gpu_memory_utilization`` is the share of each device that it takes, ``max_num_seqs`` how
    many sequences may run at once (apart from those held at full length), ``enforce_eager`` leaves out the
    CUDA graphs, ``kv_cache_memory_bytes`` sizes the pool of each device instead of the share, ``dtype`` is
    what it computes in, ``quantization`` what it quantises the weights to while loading, ``prefix_caching``
    None for the version's default, ``language_model_only`` leaves out the towers. ``gpu`` is a card of
    :mod:`ropewalk.planner.cards` by name, which stands for the machine.

    Ranks are counted as vLLM counts them: shards of a stage next to each other, then stages, then
    replicas. They lie on ``nodes`` machines with ``gpus_per_node`` devices each, None for as many as it
    takes. ``node_memory_bytes`` is the budget per device of each node where they differ, empty for
    ``memory_bytes`` everywhere; ``layer_partition`` the blocks of each stage, empty for the engine's own
    cut. ``tensor_split`` (shares of the devices) and ``rpc_servers`` (``host:port``) are llama-server's;
    its own machine comes first in ``node_memory_bytes``, the RPC servers behind it. ``num_sequences`` are
    dealt out to the replicas. ``block_size`` is vLLM's, in tokens. ``link_speed`` is what a device can send
    inside a node and, where given, between nodes, in bytes per second. ``fit`` ``nodes`` looks for the
    cheapest cut over devices of this size that holds the target, instead of planning the one given;
    ``gpu_layers`` and ``cpu_moe`` for the placement with the most on the devices that holds it.
    ``allow_broken`` starts a checkpoint in spite of the errors that its inspection found.
    """

    context_len: int
    engine: EngineName
    num_sequences: int = 1
    cache_type_k: str = "auto"
    cache_type_v: str = "auto"
    memory_bytes: int | None = None
    device: str = "auto"
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    max_batched_tokens: int | None = None
    batch: int | None = None
    ubatch: int | None = None
    flash_attn: FlashAttention = "auto"
    kv_unified: bool = False
    swa_full: bool = False
    engine_version: str | None = None
    allow_unvalidated: bool = False
    arm: str = "auto"
    gpu_layers: int | None = None
    cache_ram_bytes: int = 0
    context_checkpoints: int = 0
    mtp: int = 0
    draft: str | None = None
    projector: str | None = None
    data_parallel: int = 1
    expert_parallel: bool = False
    decode_context_parallel: int = 1
    nodes: int = 1
    gpus_per_node: int | None = None
    node_memory_bytes: tuple[int, ...] = ()
    layer_partition: tuple[int, ...] = ()
    tensor_split: tuple[float, ...] = ()
    rpc_servers: tuple[str, ...] = ()
    block_size: int | None = None
    link_speed: tuple[int, ...] = ()
    fit: FitGoal = "asked"
    gpu: str | None = None
    gpu_memory_utilization: float | None = None
    max_num_seqs: int | None = None
    enforce_eager: bool = False
    kv_cache_memory_bytes: int | None = None
    dtype: str = "auto"
    quantization: str | None = None
    prefix_caching: bool | None = None
    language_model_only: bool = False
    n_cpu_moe: int | None = None
    cpu_moe: bool = False
    override_tensor: tuple[str, ...] = ()
    split_mode: SplitMode = "layer"
    main_gpu: int = 0
    allow_broken: bool = False


@dataclass(frozen=True, slots=True)
class RopeDecision:
    """Whether and how the positions are scaled for the target context, ready for each engine.

    ``factor`` is exact (target / original as a double); ``attention_factor`` is what queries and keys
    are each multiplied by. The blocks are None where nothing has to be set; ``llama_server_flags`` is
    then empty.
    """

    decision: RopeDecisionKind
    type: str | None
    factor: float | None
    original_max_position_embeddings: int | None
    attention_factor: float | None
    reason: str
    source: str
    transformers_v4: dict[str, Any] | None = None
    transformers_v5: dict[str, Any] | None = None
    vllm_hf_overrides: dict[str, Any] | None = None
    llama_server_flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemoryTerm:
    """One named part of the memory; ``low_bytes`` <= ``bytes`` <= ``high_bytes``, equal where exact.

    ``logical_bytes`` is what the model itself needs of a cache, before the engine rounds, pads and
    replicates; None for what is no cache.
    """

    name: str
    bytes: int
    low_bytes: int
    high_bytes: int
    basis: Basis
    source: str
    logical_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class KvCache:
    """What the model needs to keep, and what the engine reserves for it.

    ``bytes_per_token`` sums the layers that grow with every token. Where some forget, that holds up to the
    shortest of the ``windows``, and ``bytes_per_token_beyond`` is what each token adds past the longest;
    ``logical_bytes`` is what ``num_sequences`` full contexts need, windows capped at their width;
    ``reserved_bytes`` is what the target needs of the engine. ``block_size`` and ``num_blocks`` are the
    engine's units (vLLM blocks; for llama-server cells of one token, padded).

    The ``pool_*`` figures are those of the pool that this start takes, on one device, as the engine prints
    them, with the ends of the range that they rest on; None where the engine has no pool of its own size,
    or where the memory of the device is not known.
    """

    bytes_per_token: int
    logical_bytes: int
    reserved_bytes: int
    state_bytes_per_sequence: int
    block_size: int
    num_blocks: int
    max_concurrency: float | None
    pool_bytes: int | None = None
    pool_bytes_low: int | None = None
    pool_bytes_high: int | None = None
    pool_blocks: int | None = None
    pool_blocks_low: int | None = None
    pool_blocks_high: int | None = None
    pool_tokens: int | None = None
    pool_tokens_low: int | None = None
    pool_tokens_high: int | None = None
    pool_concurrency: float | None = None
    pool_concurrency_low: float | None = None
    pool_concurrency_high: float | None = None
    windows: tuple[int, ...] = ()
    bytes_per_token_beyond: int | None = None


@dataclass(frozen=True, slots=True)
class RankPlace:
    """Where a rank stands and what it alone holds.

    ``node``, ``replica``, ``stage`` and ``shard`` count from 0. ``experts`` is the half-open range of
    routed experts where they are spread over ranks, None where each rank has a slice of all.
    ``budget_bytes`` is what the engine may use there, ``blocks`` what that leaves room for (None without
    a budget, or where the engine has none); all ranks of a replica serve with the fewest blocks. The
    ``tightest`` is the one rank of the plan that decides: the first with the fewest blocks, or without a
    budget the one that needs most.
    """

    node: int
    replica: int = 0
    stage: int = 0
    shard: int = 0
    embedding: bool = False
    head: bool = False
    experts: tuple[int, int] | None = None
    budget_bytes: int | None = None
    blocks: int | None = None
    tightest: bool = False


@dataclass(frozen=True, slots=True)
class DeviceShare:
    """What one device holds. ``layers`` is the half-open range ``[first, last)`` of blocks on it.

    ``kv_bytes`` are all its caches and states; ``high_bytes`` is what ``fits`` is judged by. ``place`` is
    set where there are several ranks; ``terms`` are those of this device alone.
    """

    device: str
    weights_bytes: int
    kv_bytes: int
    total_bytes: int
    fits: bool | None
    layers: tuple[int, int]
    high_bytes: int | None = None
    place: RankPlace | None = None
    terms: tuple[MemoryTerm, ...] = ()


@dataclass(frozen=True, slots=True)
class Memory:
    """All terms; ``total_bytes`` and ``high_bytes`` are their sums."""

    terms: tuple[MemoryTerm, ...]
    total_bytes: int
    high_bytes: int
    kv: KvCache
    per_device: tuple[DeviceShare, ...]

    def term(self, name: str) -> MemoryTerm | None:
        """The term of this name, or None where the engine has none."""
        return next((term for term in self.terms if term.name == name), None)


@dataclass(frozen=True, slots=True)
class FitRow:
    """Largest context and number of sequences that one cache type allows within the budget."""

    cache_type: str
    max_context_len: int | None
    max_sequences: int | None


@dataclass(frozen=True, slots=True)
class Fit:
    """The verdict on the upper end of the estimate; all None without a budget.

    ``usable_bytes`` is the part of ``budget_bytes`` that the engine allows itself on each device; where
    nodes differ, both are of the smallest. ``max_context_len`` knows memory alone; ``largest_context_len`` is
    the longest that memory, config and publisher allow, ``limited_by`` which of them ends it (None where
    nothing does).
    """

    budget_bytes: int | None
    fits: bool | None
    max_context_len: int | None
    max_sequences: int | None
    table: tuple[FitRow, ...]
    usable_bytes: int | None = None
    largest_context_len: int | None = None
    limited_by: LimitedBy = None


@dataclass(frozen=True, slots=True)
class Prefill:
    """FLOPs (2 x multiply-adds) of one prompt of ``context_len`` tokens."""

    linear_flops: int
    attention_flops: int
    attention_flops_causal: int


@dataclass(frozen=True, slots=True)
class Mask:
    """Live cells of one head's score matrix: causal, and under the model's window (None without)."""

    causal: int
    window: int | None


@dataclass(frozen=True, slots=True)
class Decode:
    """Bytes read and FLOPs done per decoded token at the full context."""

    bytes_per_token: int
    flops_per_token: int


@dataclass(frozen=True, slots=True)
class PromptWork:
    """What a prompt of ``length`` tokens takes, and the token after it."""

    length: int
    prefill: Prefill
    decode: Decode

    @property
    def attention_share(self) -> float:
        """The part of the causal prefill that is attention."""
        attention = self.prefill.attention_flops_causal
        return attention / (attention + self.prefill.linear_flops)


@dataclass(frozen=True, slots=True)
class Speed:
    """Predicted speed; ``basis`` says whether it is a bound or a calibrated prediction, with its range.

    ``source`` names the run that a prediction rests on.
    """

    basis: Literal["bound", "calibrated"]
    source: str
    prefill_seconds: float | None = None
    decode_tokens_per_second: float | None = None
    prefill_seconds_low: float | None = None
    prefill_seconds_high: float | None = None
    decode_tokens_per_second_low: float | None = None
    decode_tokens_per_second_high: float | None = None


@dataclass(frozen=True, slots=True)
class Compute:
    """Work of the plan. ``attention_share`` is of the causal prefill; ``crossover_len`` the length at
    which causal attention equals the linear layers; ``score_matrix_bytes`` what eager attention would
    hold per layer at the model's dtype."""

    prefill: Prefill
    attention_share: float
    crossover_len: int | None
    score_matrix_bytes: int
    mask: Mask
    decode: Decode
    speed: Speed | None = None


@dataclass(frozen=True, slots=True)
class Advice:
    """Another cut of the same devices that holds more; the figures are those of a plan for it.

    ``flags`` are the options of ``ropewalk plan`` for it.
    """

    kind: AdviceKind
    flags: tuple[str, ...]
    max_context_len: int | None
    max_sequences: int | None


@dataclass(frozen=True, slots=True)
class WayOut:
    """One change by which a plan that does not fit would: ``flags`` are the options of ``ropewalk plan``.

    ``needed_bytes`` of ``usable_bytes`` are then needed on the tightest device. ``weights_bytes`` is what the
    weights of a quantised sibling may take, for which there is no option.
    """

    kind: WayOutKind
    flags: tuple[str, ...]
    needed_bytes: int
    usable_bytes: int
    weights_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Traffic:
    """What one token's pass sends: ``tensor`` all-reduces of a stage's ranks, or ``pipeline`` borders.

    ``bytes_per_token`` are on the wire per rank, all ``operations`` of a token together. The seconds are an
    estimate from nominal speeds: low by bytes alone, high with each operation's latency; None without a
    speed. What experts exchange is left out.
    """

    kind: Literal["tensor", "pipeline"]
    operations: int
    bytes_per_token: int
    between_nodes: bool
    low_seconds: float | None = None
    high_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Candidate:
    """A cut that the search priced. ``shortfall_bytes`` is what the tightest rank is short of, None where the
    cut is impossible and ``reason`` says why; ``bytes_per_token`` what it would send between devices."""

    nodes: int
    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    layer_partition: tuple[int, ...]
    fits: bool
    shortfall_bytes: int | None
    bytes_per_token: int | None
    reason: str
    chosen: bool = False


PlacementStepKind = Literal["one_more", "chosen", "one_less", "least"]


@dataclass(frozen=True, slots=True)
class PlacementStep:
    """A placement that was priced: the chosen one, one block more or less on the devices, or the least there.

    ``gpu_layers`` None is all layers. ``host_weights_bytes`` are the weights that stay on the host,
    ``shortfall_bytes`` is what the tightest device is short of, negative for what it has to spare, and
    ``max_context_len`` the longest context with this placement.
    """

    kind: PlacementStepKind
    gpu_layers: int | None
    n_cpu_moe: int | None
    host_weights_bytes: int
    shortfall_bytes: int
    max_context_len: int | None


@dataclass(frozen=True, slots=True)
class Parallel:
    """What several ranks bring and cost; ``tightest`` is the device that decides."""

    tightest: str | None
    advice: tuple[Advice, ...] = ()
    traffic: tuple[Traffic, ...] = ()
    candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeLaunch:
    """What one machine of a group starts; node 0 is the one that serves.

    ``address`` is the machine's own as the others reach it. ``argv`` are the arguments after the program
    (``program`` is its name as typed there), ``env`` what is added to the environment.
    """

    node: int
    address: str
    program: str
    argv: tuple[str, ...]
    env: dict[str, str]
    command: str


@dataclass(frozen=True, slots=True)
class OptionNote:
    """Options of a command that nobody asked for, and why they are there."""

    flags: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Launch:
    """Everything needed to start a planned server, here or on another machine.

    ``argv`` are the engine's own arguments after the program, plain integers only, in the engine's own
    spelling, with ``host`` and ``port`` among them; ``env`` is what is added to the environment, ``command``
    both as typed into a shell. Where several machines serve together ``nodes`` has the command of each, and
    the others are node 0's. ``served_context_len`` is the context per sequence that the server may report for
    the ``context_len`` planned (as the engine pads it). ``override_context_len`` lifts the checkpoint's own
    limit to this length without scaling (``--override-kv``, or a patched temporary copy for the embedded
    engine). ``build`` is what starts it on this machine; None in a plan, which is for any.
    """

    engine: EngineName
    engine_version: str | None
    argv: tuple[str, ...]
    env: dict[str, str]
    command: str
    confirmed_by: Literal["engine", "rules"]
    nodes: tuple[NodeLaunch, ...] = ()
    explained: tuple[OptionNote, ...] = ()
    model: str = ""
    host: str = "127.0.0.1"
    port: int = 0
    context_len: int = 0
    served_context_len: int = 0
    override_context_len: int | None = None
    build: EngineBuild | None = None

    @property
    def found_build(self) -> EngineBuild:
        """The build that starts it. Raises :class:`UsageError` where none is named."""
        if self.build is None:
            raise UsageError("the launch names no engine of this machine", where={"engine": self.engine})
        return self.build


@dataclass(frozen=True, slots=True)
class Plan(Paged):
    """The answer to a :class:`PlanRequest`; ``launch`` is filled in by ``serving``.

    ``override_context_len`` is set where the checkpoint's own limit must be lifted to that length,
    ``parallel`` where there are several devices or a search for them, ``placements`` where one was looked
    for. ``broken`` are the errors of the checkpoint itself, which are
    among the findings too.
    """

    request: PlanRequest
    checkpoint: str
    context_len: int
    native_context: int | None
    supported_context: int | None
    rope: RopeDecision
    memory: Memory
    fit: Fit
    compute: Compute | None
    findings: tuple[Finding, ...]
    launch: Launch | None = None
    override_context_len: int | None = None
    parallel: Parallel | None = None
    placements: tuple[PlacementStep, ...] = ()
    broken: tuple[Finding, ...] = ()
    ways_out: tuple[WayOut, ...] = ()
    schema: str = "ropewalk.plan/1"

    @property
    def positive(self) -> bool:
        """The verdict in one bit: not refused, not known to be too large, no finding of severity error."""
        return self.rope.decision != "refuse" and self.fit.fits is not False and not has_error(self.findings)

    @property
    def may_start(self) -> bool:
        """Whether it may be started or emitted: the verdict is positive, or only the checkpoint's own errors
        are in the way and these were allowed."""
        if not self.request.allow_broken:
            return self.positive
        own = [finding for finding in self.findings if finding not in self.broken]
        return self.rope.decision != "refuse" and self.fit.fits is not False and not has_error(own)
