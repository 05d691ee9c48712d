"""What is asked of the planner."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ropewalk.engines import EngineName

FlashAttention = Literal["on", "off", "auto"]


FitGoal = Literal["asked", "nodes", "gpu_layers", "cpu_moe"]


MambaCacheMode = Literal["none", "align", "all"]
SplitMode = Literal["layer", "none", "row", "tensor"]


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a user wants to serve.

    ``context_len`` is tokens per sequence (prompt and answer together), 0 for the longest that is allowed,
    ``num_sequences`` how many such sequences are held at once. ``memory_bytes`` is the budget per device,
    None for that of this machine where it is planned for, else for "say what it takes". ``arm`` chooses the
    rope: ``auto`` decides, ``shipped`` changes nothing, ``yarn:F`` forces a factor, ``unscaled`` lifts the
    limit without scaling (to measure what that does). None means the engine's own default for ``batch``,
    ``ubatch``, ``max_batched_tokens``.
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
    None for the version's default, ``language_model_only`` leaves out the towers. ``speculative`` is a way of
    proposing tokens without a checkpoint's MTP layers, ``METHOD`` or ``METHOD:N`` with N tokens per step;
    ``mamba_cache_mode`` and ``mamba_ssm_cache_dtype`` are those of recurrent states, ``cpu_offload_bytes``
    the weights of each rank that stay in host memory, ``kv_offloading_bytes`` the host memory of all ranks
    for cached blocks that leave the devices. ``lora`` is how many adapters of up to ``max_lora_rank`` may
    work at once, 0 for none. ``gpu`` is a card of
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
    speculative: str | None = None
    mamba_cache_mode: MambaCacheMode | None = None
    mamba_ssm_cache_dtype: str = "auto"
    cpu_offload_bytes: int = 0
    kv_offloading_bytes: int = 0
    lora: int = 0
    max_lora_rank: int = 16
    n_cpu_moe: int | None = None
    cpu_moe: bool = False
    override_tensor: tuple[str, ...] = ()
    split_mode: SplitMode = "layer"
    main_gpu: int = 0
    allow_broken: bool = False
