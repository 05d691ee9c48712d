"""A model's layers as vLLM's cache buckets: page sizes per rank, block sizes, pages of states."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm, prod

from ropewalk.inspector.layer_kinds import LayerGroup
from ropewalk.planner.caches import CacheType
from ropewalk.planner.engines.vllm_pool import Bucket, BucketKind
from ropewalk.planner.engines.vllm_sparse import index_row_bytes
from ropewalk.planner.machine import DeviceKind
from ropewalk.planner.parallel import heads_per_rank
from ropewalk.planner.records import MambaCacheMode
from ropewalk.planner.shape import ModelShape

# Attention on a CPU takes multiples of 32 ("No common block size for 16"), that of GPUs multiples of 16.
BLOCK_UNIT: dict[DeviceKind, int] = {"gpu": 16, "cpu": 32}
_DEFAULT_BLOCK = {"gpu": 16, "cpu": 128}  # config/cache.py; CPU_ATTN prefers 128
_LATENT_ALIGNMENT = 128  # hybrids with latent attention, platforms/interface.py:1080


@dataclass(frozen=True, slots=True)
class Paging:
    """What the sizes of pages depend on; ``block_size`` is the one asked for, None for the engine's own.

    ``context_len`` sizes the one block of a model that keeps nothing but states; ``drafted`` is how many
    tokens are proposed per step. ``state_mode`` and ``checkpoints`` decide how many states a request holds:
    one, one per prefix beside it, or one for every block.
    """

    device: DeviceKind
    tensor_parallel: int
    cache_type: CacheType
    dtype_bytes: int
    state_dtype_bytes: int
    context_parallel: int = 1
    block_size: int | None = None
    context_len: int = 0
    drafted: int = 0
    state_mode: MambaCacheMode = "align"
    checkpoints: bool = True


def buckets_of(shape: ModelShape, paging: Paging) -> tuple[Bucket, ...]:
    """One bucket per group of layers that keeps anything, and one per indexer; none for heads of unknown
    size."""
    block = block_size(shape, paging)
    # Blocks of full attention hold as many tokens of each rank that shares them (kv_cache_utils.py:728).
    shared = block * paging.context_parallel
    buckets = []
    for group in shape.cached_layers:
        if (group.grows or group.kind == "cross") and _token_bytes(group, paging):
            buckets.append(_attention(shape, group, paging, block))
        if group.state:
            buckets.append(_state(shape, group, paging, block))
        # What is pooled keeps one row per so many tokens of a block.
        ratio = group.compress_ratio or 1
        if ratio > 1:
            page = block * _token_bytes(group, paging) // ratio
            buckets.append(Bucket("full", group.indices, page, shared))
        if group.indexer_head_dim:
            page = block * index_row_bytes(group) // ratio
            buckets.append(Bucket("full", group.indices, page, shared, term="indexer_cache"))
    return tuple(buckets)


def block_size(shape: ModelShape, paging: Paging) -> int:
    """Tokens per block: the backend's own, or as many as make an attention page hold a state."""
    latent = any(group.kind == "latent" for group in shape.layers)
    size = paging.block_size or (16 if latent else _DEFAULT_BLOCK[paging.device])
    states = [state_bytes(group, paging) for group in shape.layers if group.state]
    tokens = _row_sizes(shape, paging)
    if states and not tokens and paging.state_mode == "none":
        return paging.block_size or paging.context_len or size  # mamba_block_size, models/config.py
    if not states or not tokens:
        return size
    unit = max(size, _LATENT_ALIGNMENT) if latent else size
    if paging.state_mode == "all":  # whole chunks of the scan (platforms/interface.py:884 of 0.26)
        unit = lcm(unit, shape.scan_chunk)
    return unit * -(-max(states) // (unit * max(tokens)))


def _attention(shape: ModelShape, group: LayerGroup, paging: Paging, block: int) -> Bucket:
    kind = _kind(group)
    return Bucket(
        kind=kind,
        layers=group.indices,
        page_bytes=block * _token_bytes(group, paging),
        block_size=block * (paging.context_parallel if kind == "full" else 1),
        window=group.window or 0,
        pages=-(-(shape.encoder_len or 0) // block) if group.kind == "cross" else 0,
        term="cross_attention_cache" if group.kind == "cross" else "kv_cache",
    )


def _kind(group: LayerGroup) -> BucketKind:
    if group.kind in ("cross", "chunked"):
        return group.kind
    return "sliding" if group.window else "full"


def _state(shape: ModelShape, group: LayerGroup, paging: Paging, block: int) -> Bucket:
    """A state's page, padded to the attention page beside it.

    A request holds one state; with prefix caching two, and one more where a prefill leaves a checkpoint
    (mamba_mixer2.py:1107 of 0.32); one for each drafted token on top (v1/kv_cache_interface.py, MambaSpec).
    """
    tokens = _row_sizes(shape, paging)
    page = block * max(tokens) if tokens else state_bytes(group, paging)
    if paging.state_mode == "all":
        return Bucket("state", group.indices, page, block, extra=paging.drafted, term="state")
    kept = paging.state_mode == "align"
    cached = 1 + (paging.checkpoints and _leaves_checkpoint(shape, group)) if kept else 0
    pages = 1 + cached + paging.drafted
    return Bucket("state", group.indices, page, block, pages=pages, term="state")


def _row_sizes(shape: ModelShape, paging: Paging) -> list[int]:
    """Bytes of one token in each kind of layer that keeps it; heads of unknown size are left out."""
    sizes = (_token_bytes(group, paging) for group in shape.layers if group.grows)
    return [size for size in sizes if size]


def _leaves_checkpoint(shape: ModelShape, group: LayerGroup) -> bool:
    """Mamba2, as opposed to delta nets, which have a size of keys of their own."""
    return not shape.delta_net and any(len(tensor.shape) == 3 for tensor in group.state)


def _token_bytes(group: LayerGroup, paging: Paging) -> int:
    """Bytes of one token in one layer on one rank; a latent row is one head, kept on every rank."""
    heads = heads_per_rank(group.num_key_value_heads or 1, paging.tensor_parallel)
    kind = paging.cache_type
    return kind.row_bytes(heads, group.head_dim_k or 0) + kind.row_bytes(heads, group.head_dim_v or 0)


def state_bytes(group: LayerGroup, paging: Paging) -> int:
    """Bytes of one layer's state on one rank: convolution rows at the model's dtype, one more for each
    drafted token (mamba_utils.py of 0.19: ``conv_kernel - 1 + num_spec``)."""
    total = 0
    for tensor in group.state:
        if tensor.name == "conv":
            rows, *rest = tensor.shape
            total += (rows + paging.drafted) * prod(rest) * paging.dtype_bytes
        else:
            total += prod(tensor.shape) * paging.state_dtype_bytes
    return total // paging.tensor_parallel
