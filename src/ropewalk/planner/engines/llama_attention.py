"""Which attention CUDA has a kernel for, which caches a processor is slow with, and what is said about both.

Rules of ggml/src/ggml-cuda/fattn.cu (``ggml_cuda_get_best_fattn_kernel``), llama.cpp b11434, and of default
builds before (``GGML_CUDA_FA_ALL_QUANTS`` off). Processors: ggml-cpu's tiled kernel runs only where keys and
values are of one type, f16 or f32; elsewhere prompts took four times as long at a depth of 4,096 (b11549).
"""

from __future__ import annotations

from ropewalk.findings import Finding
from ropewalk.inspector.layer_kinds import LayerGroup
from ropewalk.planner.caches import CacheType
from ropewalk.planner.engines import llama_builds as builds
from ropewalk.planner.records import FlashAttention
from ropewalk.planner.shape import ModelShape

_ANY_PAIR = frozenset({"f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0"})
_DEFAULT = frozenset({"f32", "f16", "bf16", "q4_0", "q8_0"})
_ONE_WIDTH = frozenset({40, 64, 72, 80, 96, 112, 128, 256})
# Width of keys: that of values, and what the query heads of one KV head must divide by.
_TWO_WIDTHS = {192: (128, 8), 320: (256, 32), 512: (512, 2), 576: (512, 2)}
_FAST_ON_CPU = frozenset({"f16", "f32"})
_DEEP = 4096  # tokens at which the slow caches were timed


def missing_kernel(shape: ModelShape, key: CacheType, value: CacheType, version: str | None) -> str | None:
    """Why CUDA's default build of this version has no flash attention for the model; None where it has."""
    all_pairs = builds.ALL_PAIRS.surely(version)
    known = _ANY_PAIR if all_pairs else _DEFAULT
    for kind in (key, value):
        if kind.name not in known:
            return f"no kernel for a cache of {kind.name}"
    if key != value and not all_pairs and not _is_latent(shape):
        return f"no kernel for keys in {key.name} beside values in {value.name}"
    odd = next((group for group in shape.layers if group.head_dim_k and not _has_width(shape, group)), None)
    return None if odd is None else f"no kernel for heads of {odd.head_dim_k}"


def _is_latent(shape: ModelShape) -> bool:
    return any(group.kind == "latent" for group in shape.layers)


def _has_width(shape: ModelShape, group: LayerGroup) -> bool:
    heads = group.num_attention_heads or shape.num_attention_heads
    ratio = heads // (group.num_key_value_heads or 1)
    keys = group.head_dim_k or 0
    values = shape.kv_lora_rank if group.kind == "latent" else group.head_dim_v or 0
    if keys in _TWO_WIDTHS:
        width, divisor = _TWO_WIDTHS[keys]
        if not values:  # a header without the latent's width: nothing is claimed
            values = width
        return values == width and ratio % divisor == 0 if divisor > 2 else values == width and ratio > 1
    return keys in _ONE_WIDTH and values == keys


def runs_flash(flash: FlashAttention, value: CacheType, missing: str | None) -> bool:
    """Whether flash attention is on: ``auto`` is off without a kernel, and the planned command writes ``on``
    for a quantised V cache, which cannot do without."""
    return flash == "on" or (flash == "auto" and (missing is None or value.quantised))


def kernel_findings(missing: str | None, *, flash: FlashAttention, value: CacheType) -> list[Finding]:
    """What a missing kernel does. ``flash`` is what the command says: ``auto`` with a quantised V stops."""
    if missing is None or flash == "off":
        return []
    where = {"flag": "--flash-attn", "flash_attn": flash, "reason": missing}
    if flash == "on":
        message = f"CUDA's default build has {missing}: attention runs on the CPU, which its log does not say"
        return [Finding("attention_on_cpu", "warning", message, where)]
    if value.quantised:
        message = (
            f"CUDA's default build has {missing}: flash attention is switched off, and {value.name} needs it"
        )
        return [Finding("cache_type_needs_flash_attention", "error", message, where)]
    message = f"CUDA's default build has {missing}: flash attention is switched off, and scores take memory"
    return [Finding("flash_attention_off", "warning", message, where)]


def cpu_findings(key: CacheType, value: CacheType, context_len: int) -> list[Finding]:
    """A cache that makes long prompts slow on a processor; nothing for short ones."""
    if context_len < _DEEP or (key == value and key.name in _FAST_ON_CPU):
        return []
    names = key.name if key == value else f"{key.name} and {value.name}"
    return [
        Finding(
            "cache_type_slow",
            "warning",
            f"on a CPU a cache of {names} makes long prompts about four times slower than f16: the fast "
            "kernel needs f16 or f32 for both",
            {"flag": "--cache-type", "k": key.name, "v": value.name, "context_len": context_len},
        )
    ]
