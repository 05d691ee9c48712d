"""Stored tensors to logical weights: packed words unpacked, scales and buffers set aside.

Every packing is recognised by its companions (``qweight`` beside ``scales``, ``*_blocks`` beside
``*_scales``), not by the name of the method.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ropewalk.inspector.derive.names import Row
from ropewalk.inspector.tensors import Shape

# Scales, zero points and statistics that quantisers store beside a weight (GPTQ, AWQ, bitsandbytes,
# compressed-tensors, ModelOpt, fp8 block scales), and buffers that are no parameters in transformers 5.24.
_NOT_A_PARAMETER = re.compile(
    r"(?:^|[._])(?:qzeros|g_idx|absmax|SCB|quant_map|weight_format|zero_point|weight_shape"
    r"|weight_scale(?:_inv|_2|_vec)?|scale_inv|(?:input|output|activation|pre_quant)_scale"
    r"|(?:weight|input|output)_global_scale|[kvq]_scale|prob_scale|input_(?:min|max)|output_(?:min|max)"
    r"|inv_freq|masked_bias|causal_mask|position_ids|token_type_ids|num_batches_tracked|running_(?:mean|var)"
    r"|e_score_correction_bias|final_logits_bias|layer_scalar|std_(?:bias|scale))$"
    r"|(?:^|\.)(?:rope_freqs|rope_factors_(?:long|short)|exp_probs_b|layer_output_scale)\.|\.quant_state\.",
)
_WORD_DTYPES = frozenset({"I32", "U32", "I64", "U64", "I16", "U16"})
_BYTE_DTYPES = frozenset({"U8", "I8"})


@dataclass(frozen=True, slots=True)
class Weight:
    """A logical weight. ``shape`` is ``(out, in)`` for matrices (flat where packing hides it).

    ``parameters`` are those of one of the ``count`` equal tensors; None where the packing is unknown.
    """

    name: str
    shape: Shape
    count: int
    parameters: int | None

    @property
    def total(self) -> int | None:
        """Parameters of all ``count`` tensors."""
        return None if self.parameters is None else self.parameters * self.count


@dataclass(frozen=True, slots=True)
class PackingHint:
    """What the config says about packed words: bits per value and values per scale, None if silent.

    ``opaque`` methods store codes into tables, whose number is not that of the weights.
    """

    bits: int | None = None
    group_size: int | None = None
    opaque: bool = False


def unpack(rows: Sequence[Row], hint: PackingHint) -> list[Weight]:
    """The logical weights among ``rows`` of one block (or outside of any); bookkeeping is left out."""
    shapes = {row.name: row.shape for row in rows}
    found = (_weight(row, shapes, hint) for row in rows)
    return [weight for weight in found if weight is not None]


def _weight(row: Row, shapes: Mapping[str, Shape], hint: PackingHint) -> Weight | None:
    if _is_bookkeeping(row, shapes):
        return None
    name, shape = row.name, row.shape
    if name.endswith("_blocks") and f"{name.removesuffix('_blocks')}_scales" in shapes:
        logical = (*shape[:-2], shape[-2] * shape[-1] * 2) if len(shape) > 1 else (2 * prod(shape),)
        return _plain(row, name.removesuffix("_blocks"), logical)
    if name.endswith(".qweight"):
        return _words(row, name.removesuffix(".qweight"), shapes, hint)
    if name.endswith(".weight_packed"):
        return _compressed(row, name.removesuffix("_packed"), hint)
    if name.endswith(".weight"):
        shape = _unpacked_shape(row, name.removesuffix(".weight"), shapes, hint)
    if hint.opaque and row.dtype in _BYTE_DTYPES:
        return Weight(name, shape, row.count, None)
    return _plain(row, name, shape)


def _is_bookkeeping(row: Row, shapes: Mapping[str, Shape]) -> bool:
    name = row.name
    if _NOT_A_PARAMETER.search(name):
        return True
    if name.endswith(("attn.bias", "attention.bias")):
        return len(row.shape) == 4  # causal mask buffer of GPT-2 and GPT-NeoX
    module, _, last = name.rpartition(".")
    if last in ("scales", "biases"):
        return f"{module}.scales" in shapes
    if name.endswith("_scales"):
        return f"{name.removesuffix('_scales')}_blocks" in shapes
    return last == "scale" and f"{module}.weight" in shapes and "norm" not in module


def _plain(row: Row, name: str, shape: Shape) -> Weight:
    unknown = row.dtype in _WORD_DTYPES and shape is row.shape and prod(shape) > 1
    return Weight(name, shape, row.count, None if unknown else prod(shape))


def _words(row: Row, module: str, shapes: Mapping[str, Shape], hint: PackingHint) -> Weight:
    """GPTQ and AWQ: whole words along one side; ``scales`` has one column per output feature."""
    scales, zeros = shapes.get(f"{module}.scales"), shapes.get(f"{module}.qzeros")
    bits = hint.bits
    if scales and zeros and scales[-1] and 32 * zeros[-1] % scales[-1] == 0:
        bits = 32 * zeros[-1] // scales[-1] or bits
    elements = prod(row.shape) * 32
    if not bits or elements % bits or not scales or not scales[-1]:
        return Weight(f"{module}.weight", row.shape, row.count, None)
    out = scales[-1]
    return _plain(row, f"{module}.weight", (out, elements // bits // out))


def _compressed(row: Row, name: str, hint: PackingHint) -> Weight:
    """compressed-tensors: bytes hold two 4-bit floats, words hold ``32 / bits`` integers, along inputs."""
    per_element = 2 if row.dtype in _BYTE_DTYPES else 32 // hint.bits if hint.bits else None
    if per_element is None:
        return Weight(name, row.shape, row.count, None)
    return _plain(row, name, (*row.shape[:-1], row.shape[-1] * per_element))


def _unpacked_shape(row: Row, module: str, shapes: Mapping[str, Shape], hint: PackingHint) -> Shape:
    shape = row.shape
    if f"{module}.weight.absmax" in shapes:  # bitsandbytes 4-bit: a flat column of two values per byte
        return (2 * row.nbytes // row.count,)
    scales = shapes.get(f"{module}.scales")
    if row.dtype == "U32" and scales and shape and scales[-1]:  # MLX
        values = scales[-1] * (hint.group_size or 64)
        return (*shape[:-1], values)
    scales = shapes.get(f"{module}.weight_scale") or shapes.get(f"{module}.scale")
    if row.dtype not in _BYTE_DTYPES or not scales or not len(shape) == len(scales) > 1:
        return shape
    # two 4-bit floats per byte, one scale per 16 (NVFP4) or 32 (MXFP4) of them
    two_each = 2 * shape[-1] in (16 * scales[-1], 32 * scales[-1])
    return (*shape[:-1], 2 * shape[-1]) if two_each else shape
