"""How the weights are quantised: what the config says in its many spellings, in one record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ropewalk.inspector.derive.names import relative_name
from ropewalk.inspector.derive.packing import PackingHint, Pair
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.records import Checkpoint, Fact

_SIDE_FILE = "hf_quant_config.json"  # NVIDIA ModelOpt
_GPTQ_FILE = "quantize_config.json"  # AutoGPTQ
# Vector quantisation and packings whose tensors do not tell how many weights they stand for.
_MAX_DEPTH = 6
_OPAQUE = frozenset({"higgs", "hqq", "quip", "spqr", "vptq"})
_FLOAT_BITS = {"fp8": 8, "mxfp4": 4, "nvfp4": 4, "fbgemm_fp8": 8, "nf4": 4, "fp4": 4}
# Bits per weight of the block formats, from block and byte sizes (llama.cpp b11434, ggml-common.h).
_FULL_PRECISION = frozenset({"F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"})


def quantization_fact(checkpoint: Checkpoint, settings: Settings) -> Fact:
    """``{"method", "bits", "group_size", "format"}``, None for plain weights; unknown parts are None."""
    if checkpoint.format == "gguf":
        return _from_ggml_types(checkpoint)
    for where, block in _candidates(checkpoint, settings):
        if isinstance(block, Mapping) and block:
            return Fact(_summary(block), "config", where)
    return Fact(None, "config", "no quantization_config")


def packing_hint(checkpoint: Checkpoint, settings: Settings, quantization: Fact) -> PackingHint:
    """What unpacking needs to know of it, the pairs of single modules and groups as well."""
    value = quantization.value
    if not isinstance(value, Mapping):
        return PackingHint()
    blocks = [block for _, block in _candidates(checkpoint, settings) if isinstance(block, Mapping) and block]
    others, overrides = _pairs(blocks[0]) if blocks else ((), {})
    return PackingHint(
        _width(value.get("bits")),
        _group(value.get("group_size")),
        opaque=value.get("method") in _OPAQUE,
        others=others,
        overrides=overrides,
    )


def _pairs(block: Mapping[str, Any]) -> tuple[tuple[Pair, ...], dict[str, tuple[Pair, ...]]]:
    """(bits, group size) of the groups, and those of single modules by their name within a block."""
    others: dict[Pair, None] = {}
    for found in _mappings(block):
        bits = _width(found.get("num_bits", found.get("bits")))
        if bits:
            others[bits, _group(found.get("group_size"))] = None
    overrides: dict[str, dict[Pair, None]] = {}
    for name, own in block.items():
        if isinstance(own, Mapping) and _width(own.get("bits")):
            pair = (_width(own.get("bits")) or 0, _group(own.get("group_size")))
            overrides.setdefault(relative_name(name), {})[pair] = None
    return tuple(others), {name: tuple(pairs) for name, pairs in overrides.items()}


def _mappings(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Every object in a quantisation config, as deep as any method nests its groups."""
    if isinstance(value, Mapping) and depth < _MAX_DEPTH:
        yield value
        for inner in value.values():
            yield from _mappings(inner, depth + 1)


def _width(bits: Any) -> int | None:
    return bits if isinstance(bits, int) and not isinstance(bits, bool) and 0 < bits <= 32 else None


def _group(size: Any) -> int | None:
    return size if isinstance(size, int) and not isinstance(size, bool) and 0 < size <= 2**20 else None


def _candidates(checkpoint: Checkpoint, settings: Settings) -> list[tuple[str, Any]]:
    nested = settings.text_config_key
    side = checkpoint.relatives.get(_SIDE_FILE)
    inner = side.get("quantization") if isinstance(side, Mapping) else None
    return [
        ("quantization_config", settings.outer.get("quantization_config")),
        (f"{nested}.quantization_config", settings.block.get("quantization_config")),
        ("compression_config", settings.outer.get("compression_config")),
        ("quantization", settings.outer.get("quantization")),
        (_SIDE_FILE, inner),
        (_GPTQ_FILE, checkpoint.relatives.get(_GPTQ_FILE)),
    ]


def _summary(block: Mapping[str, Any]) -> dict[str, Any]:
    method = _method(block)
    weights = _weights_of_groups(block)
    bits = block.get("bits") or block.get("w_bit") or weights.get("num_bits")
    if bits is None:
        bits = _bits_by_name(block, method)
    if block.get("quant_algo") == "MIXED_PRECISION":
        bits = None  # differs by layer
    group = block.get("group_size") or block.get("q_group_size") or weights.get("group_size")
    if group is None and method == "torchao":
        group = next((found["group_size"] for found in _mappings(block) if "group_size" in found), None)
    if group == -1:
        group = None  # one scale for a whole column
    if group is None and isinstance(block.get("weight_block_size"), list):
        group = block["weight_block_size"]
    return {"method": method, "bits": bits, "group_size": group, "format": _format(block)}


def _method(block: Mapping[str, Any]) -> str | None:
    """``quant_method``; MLX writes only bits and group size, ModelOpt an algorithm."""
    declared = block.get("quant_method")
    if isinstance(declared, str):
        return declared
    if isinstance(block.get("quant_algo"), str):
        return "modelopt"
    if "desc_act" in block:
        return "gptq"
    return "mlx" if "bits" in block and "group_size" in block else None


def _format(block: Mapping[str, Any]) -> str | None:
    """The finer name: NF4, NVFP4, e4m3, pack-quantized, gemm."""
    for key in ("quant_algo", "format", "bnb_4bit_quant_type", "fmt", "version", "checkpoint_format", "mode"):
        if isinstance(block.get(key), str):
            return str(block[key])
    groups = block.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    inner = first.get("format") if isinstance(first, Mapping) else None
    return inner if isinstance(inner, str) else None


def _weights_of_groups(block: Mapping[str, Any]) -> Mapping[str, Any]:
    """The weight scheme of the first group (compressed-tensors, ModelOpt)."""
    groups = block.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    return weights if isinstance(weights, Mapping) else {}


def _bits_by_name(block: Mapping[str, Any], method: str | None) -> int | None:
    for word in (block.get("quant_algo"), block.get("bnb_4bit_quant_type"), method):
        bits = _FLOAT_BITS.get(str(word).lower())
        if bits is not None:
            return bits
    if block.get("load_in_4bit") or block.get("_load_in_4bit"):
        return 4
    return 8 if block.get("load_in_8bit") or "FP8" in str(block.get("quant_algo")) else None


def _from_ggml_types(checkpoint: Checkpoint) -> Fact:
    """The type that most bytes are stored in; ``bits`` counts its scales in."""
    sizes: Counter[str] = Counter()
    elements: Counter[str] = Counter()
    table = checkpoint.tensors
    for dtype, shape, nbytes in zip(table.dtypes, table.shapes, table.nbytes, strict=True):
        sizes[dtype] += nbytes
        count = 1
        for length in shape:
            count *= length
        elements[dtype] += count
    quantised = {dtype: size for dtype, size in sizes.items() if dtype not in _FULL_PRECISION}
    if not quantised:
        return Fact(None, "tensor", "no block-quantised tensor")
    main = max(quantised, key=lambda dtype: quantised[dtype])
    bits = round(8 * sizes[main] / elements[main], 4) if elements[main] else None
    value = {"method": "gguf", "bits": bits, "group_size": None, "format": main}
    return Fact(value, "tensor", f"{main}: most bytes")
