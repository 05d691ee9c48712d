"""The fields of a request as typed keywords: what ``import ropewalk``, a body over HTTP and the arms of a
measurement are given. Only what is asked for is there; a test holds them equal to the record's."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields
from typing import Required, cast

from typing_extensions import TypedDict  # pydantic takes that of typing only from Python 3.12 on

from ropewalk.engines import EngineName
from ropewalk.planner.records import FitGoal, FlashAttention, MambaCacheMode, PlanRequest, SplitMode


class ServerOptions(TypedDict, total=False):
    """What shapes a server, whatever its length and rope: see :class:`PlanRequest`."""

    num_sequences: int
    cache_type_k: str
    cache_type_v: str
    memory_bytes: int | None
    device: str
    tensor_parallel: int
    pipeline_parallel: int
    max_batched_tokens: int | None
    batch: int | None
    ubatch: int | None
    flash_attn: FlashAttention
    kv_unified: bool
    swa_full: bool
    engine_version: str | None
    allow_unvalidated: bool
    gpu_layers: int | None
    cache_ram_bytes: int
    context_checkpoints: int
    mtp: int
    draft: str | None
    projector: str | None
    data_parallel: int
    expert_parallel: bool
    decode_context_parallel: int
    nodes: int
    gpus_per_node: int | None
    node_memory_bytes: tuple[int, ...]
    layer_partition: tuple[int, ...]
    tensor_split: tuple[float, ...]
    rpc_servers: tuple[str, ...]
    block_size: int | None
    link_speed: tuple[int, ...]
    fit: FitGoal
    gpu: str | None
    gpu_memory_utilization: float | None
    max_num_seqs: int | None
    enforce_eager: bool
    kv_cache_memory_bytes: int | None
    dtype: str
    quantization: str | None
    prefix_caching: bool | None
    language_model_only: bool
    speculative: str | None
    mamba_cache_mode: MambaCacheMode | None
    mamba_ssm_cache_dtype: str
    cpu_offload_bytes: int
    kv_offloading_bytes: int
    lora: int
    max_lora_rank: int
    n_cpu_moe: int | None
    cpu_moe: bool
    override_tensor: tuple[str, ...]
    split_mode: SplitMode
    main_gpu: int
    allow_broken: bool


class PlanOptions(ServerOptions, total=False):
    """All of a request. Without ``engine`` it is the one for the checkpoint's format."""

    context_len: Required[int]
    engine: EngineName | None
    arm: str


# Options that are not spelt as their field.
_SPELT = {
    "context_len": "--context", "num_sequences": "--sequences", "memory_bytes": "--memory",
    "cache_ram_bytes": "--cache-ram",
}  # fmt: skip


def option_words(request: PlanRequest, *, without: Collection[str] = ()) -> tuple[str, ...]:
    """The options of ``ropewalk plan`` and ``serve`` for what a request asks, defaults and the fields
    ``without`` left out."""
    plain = PlanRequest(0, request.engine)
    given = {field.name: getattr(request, field.name) for field in fields(request)}
    same_types = request.cache_type_k == request.cache_type_v
    words = ["--engine", request.engine]
    for name, value in given.items():
        if name in ("engine", "fit", *without) or value == getattr(plain, name):
            continue
        if same_types and name.startswith("cache_type"):
            words += ["--cache-type", value] if name == "cache_type_k" else []
        else:
            words += _words(_SPELT.get(name, "--" + name.replace("_", "-")), value)
    return tuple(words)


def _words(flag: str, value: object) -> list[str]:
    if isinstance(value, bool):
        return [flag if value else flag.replace("--", "--no-", 1)]
    return [flag, ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]


def server_options(request: PlanRequest) -> ServerOptions:
    """What a request asks for beyond its length, engine and rope, where that is not the default."""
    plain = PlanRequest(request.context_len, request.engine)
    names = (name for name in ServerOptions.__annotations__ if getattr(request, name) != getattr(plain, name))
    return cast("ServerOptions", {name: getattr(request, name) for name in names})
