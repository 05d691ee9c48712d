"""The rows that vLLM keeps for latent attention with an indexer: which layout each cache type resolves to.

Read in vLLM 0.32: ``model_executor/layers/attention/mla_attention.py`` (the layout by backend and its
bytes), ``platforms/cuda.py`` (the backends by generation), ``model_executor/models/config.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ropewalk.inspector.layer_kinds import LayerGroup
from ropewalk.planner.caches import CacheType
from ropewalk.planner.engines.vllm_versions import GLM_FP8_ON_BLACKWELL, SPARSE_AUTO_BF16
from ropewalk.planner.machine import Machine
from ropewalk.planner.rope.versions import has
from ropewalk.planner.shape import ModelShape

FP8_ROW = CacheType("fp8_ds_mla", 576, 656)
NVFP4_ROW = CacheType("nvfp4_ds_mla", 576, 352)
# DeepSeek-V4: 448 B of fp8, 128 B of bf16 and 8 B of scales (models/deepseek_v4/attention.py:876).
_POOLED_ROW = CacheType("fp8_ds_mla", 512, 584)
_ROTATED = 64  # values that are kept in 16 bits; a model without any has the same row, zeros in it
_PLAIN_FP8 = frozenset({"fp8", "fp8_e4m3"})


def stored_type(shape: ModelShape, kind: CacheType, version: str | None, machine: Machine) -> CacheType:
    """How this cache type is kept for this model on a GPU.

    Before Blackwell the kernels of sparse latent attention read 8 bits in DeepSeek's layout alone, on small
    Blackwells nothing else; on B200s FlashInfer reads plain fp8, and GLM-5 takes it unless told otherwise.
    """
    width = _width(shape)
    if width is None:
        return kind
    if _pools(shape):
        unquantised = kind.name == "auto" and machine.is_data_center_blackwell
        return _POOLED_ROW if not unquantised and kind.name in ("auto", "fp8_ds_mla", *_PLAIN_FP8) else kind
    if kind.name == "auto":
        kind = _default(shape, kind, version, machine)
    if kind.name in _PLAIN_FP8 and not machine.is_data_center_blackwell:
        kind = FP8_ROW
    if kind.name in (FP8_ROW.name, NVFP4_ROW.name) and width == kind.block_len - _ROTATED:
        return replace(kind, block_len=width)
    return kind


def _default(shape: ModelShape, kind: CacheType, version: str | None, machine: Machine) -> CacheType:
    if machine.is_small_blackwell or not has(SPARSE_AUTO_BF16, version):
        return FP8_ROW
    is_glm = shape.model_type == "glm_moe_dsa" and has(GLM_FP8_ON_BLACKWELL, version)
    return CacheType("fp8_e4m3", 1, 1) if is_glm and machine.is_data_center_blackwell else kind


def _sparse(shape: ModelShape) -> Iterator[LayerGroup]:
    return (group for group in shape.layers if group.kind == "latent")


def _width(shape: ModelShape) -> int | None:
    """Values of a latent row in a model with an indexer; None for every other model."""
    if not any(group.indexer_head_dim for group in _sparse(shape)):
        return None
    return next((group.head_dim_k for group in _sparse(shape)), None)


def _pools(shape: ModelShape) -> bool:
    return any(group.window for group in _sparse(shape))


def index_row_bytes(group: LayerGroup) -> int:
    """Bytes of one token's index keys in one layer: fp8 with one float32 scale per 128 values
    (models/deepseek_v2.py:731); beside plain heads of keys and values they are kept in 16 bits (MiniMax-M3:
    256 B of 128 values)."""
    size = group.indexer_head_dim or 0
    return size + 4 * (size // 128) if group.kind == "latent" else size * 2
