"""Stored tensors to logical weights: packed words unpacked, scales and buffers set aside.

Every packing is recognised by its companions (``qweight`` beside ``scales``, ``*_blocks`` beside
``*_scales``), not by the name of the method. Bits and values per scale are those of the module: the product
of both follows from the shapes, and the config's pairs tell it apart into two. What stays open is unknown.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from ropewalk.inspector.derive.names import Row
from ropewalk.inspector.tensors import Shape

# Scales, zero points and statistics that quantisers store beside a weight (GPTQ, AWQ, bitsandbytes,
# compressed-tensors, ModelOpt, Ascend, torchao, EXL3, fp8 block scales), and buffers that are no parameters
# in transformers 5.24.
_NOT_A_PARAMETER = re.compile(
    r"(?:^|[._])(?:qzeros|g_idx|absmax|SCB|quant_map|weight_format|zero_point|weight_shape"
    r"|weight_scales?(?:_inv|_2|_vec|_second)?|scale_inv|(?:input|output|activation|pre_quant)_scale"
    r"|(?:weight|input|output)_global_scale|[kvq]_scale|prob_scale|input_(?:min|max)|output_(?:min|max)"
    r"|(?:weight|input)_offset(?:_second)?|deq_scale|quant_bias|scale_bias|scale_packed"
    r"|q_invperm|q_scale|q_scale_max|q_groups|q_perm|q_group_map|suh|svh|su|sv|mcg|mul1"
    r"|(?:forward|backward)_hadamard_matrix|(?:weight|act)_global_scale|workspace|B_meta"
    r"|inv_freq|masked_bias|causal_mask|position_ids|token_type_ids|num_batches_tracked|running_(?:mean|var)"
    r"|embed_sum|cluster_usage|cluster_size|embed_avg|initialized"
    r"|e_score_correction_bias|final_logits_bias|layer_scalar|std_(?:bias|scale))$"
    r"|(?:^|\.)(?:rope_freqs|rope_factors_(?:long|short)|exp_probs_b|layer_output_scale)\.|\.quant_state\.",
)
_WORD_BITS = {"I32": 32, "U32": 32, "I64": 64, "U64": 64, "I16": 16, "U16": 16, "I8": 8, "U8": 8}
_BYTE_DTYPES = frozenset({"U8", "I8"})
_BLOCK_SCALES = (16, 32)  # values per scale of NVFP4 and of the MX formats

Pair = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Weight:
    """A logical weight. ``shape`` is ``(out, in)`` for matrices (flat where packing hides it).

    ``parameters`` are those of one of the ``count`` equal tensors; None where the packing is unknown.
    ``assumed`` says that the packing is not certain, so that the shape proves less; ``inputs_assumed`` that
    another width with another group would give the same words and scales, so that only the rows are certain.
    Where the packing is unknown the shape is empty: it proves nothing.
    """

    name: str
    shape: Shape
    count: int
    parameters: int | None
    assumed: bool = False
    inputs_assumed: bool = False

    @property
    def total(self) -> int | None:
        """Parameters of all ``count`` tensors."""
        return None if self.parameters is None else self.parameters * self.count


@dataclass(frozen=True, slots=True)
class PackingHint:
    """What the config says about packed words, as (bits per value, values per scale); None if silent.

    ``overrides`` are the pairs of single modules by their name within the block, ``others`` those of all
    other groups. ``opaque`` methods store codes into tables, whose number is not that of the weights.
    """

    bits: int | None = None
    group_size: int | None = None
    opaque: bool = False
    others: tuple[Pair, ...] = ()
    overrides: Mapping[str, tuple[Pair, ...]] = field(default_factory=dict)

    def pairs(self, module: str) -> tuple[Pair, ...]:
        """The pairs that a module may have, its own first."""
        whole: tuple[Pair, ...] = ((self.bits, self.group_size),) if self.bits else ()
        return (*self.overrides.get(module, ()), *whole, *self.others)


def unpack(rows: Sequence[Row], hint: PackingHint) -> list[Weight]:
    """The logical weights among ``rows`` of one block (or outside of any); bookkeeping is left out."""
    shapes = {row.name: row.shape for row in rows}
    found = (_weight(row, shapes, hint) for row in rows)
    return [weight for weight in found if weight is not None]


def _weight(row: Row, shapes: Mapping[str, Shape], hint: PackingHint) -> Weight | None:
    if _is_bookkeeping(row, shapes):
        return None
    name, _, last = row.name.rpartition(".")
    rule = _BY_LEAF.get(last)
    if rule is not None and (last not in _SHORT_LEAVES or f"{name}.s" in shapes):
        return rule(row, name, shapes, hint)
    if last.endswith("_blocks") and f"{row.name.removesuffix('_blocks')}_scales" in shapes:
        shape = row.shape
        logical = (*shape[:-2], shape[-2] * shape[-1] * 2) if len(shape) > 1 else (2 * prod(shape),)
        return _packed(row, row.name.removesuffix("_blocks"), logical)
    if f"{row.name}.absmax" in shapes:  # bitsandbytes 4-bit: a flat column of two values per byte
        return _packed(row, row.name, (2 * row.nbytes // row.count,), assumed=True)
    if row.dtype not in _WORD_BITS:
        return _plain(row)
    if last == "weight":
        return _integer_weight(row, name, shapes, hint)
    has_scales = any(
        other in shapes for other in (f"{row.name}_scale", f"{row.name}.scales", f"{name}.scales")
    )
    if hint.opaque or has_scales:
        return _unknown(row, row.name)
    # A table of integers (DeepSeek-V4's token-to-expert map) has no scales and is no weight.
    return Weight(row.name, row.shape, row.count, 0) if row.dtype not in _BYTE_DTYPES else _plain(row)


def _is_bookkeeping(row: Row, shapes: Mapping[str, Shape]) -> bool:
    name = row.name
    module, _, last = name.rpartition(".")
    if _NOT_A_PARAMETER.search(name):
        # su and sv are vectors beside a trellis, and names of weights elsewhere
        return last not in ("su", "sv") or f"{module}.trellis" in shapes
    if name.endswith(("attn.bias", "attention.bias")):
        return len(row.shape) == 4  # causal mask buffer of GPT-2 and GPT-NeoX
    if last in ("scales", "biases", "codebooks"):
        return f"{module}.scales" in shapes
    if last in ("s", "meta"):
        return any(f"{module}.{leaf}" in shapes for leaf in ("B", "B_24", "weight_packed"))
    if name.endswith("_scales"):
        return f"{name.removesuffix('_scales')}_blocks" in shapes
    return last == "scale" and f"{module}.weight" in shapes and "norm" not in module


def _plain(row: Row) -> Weight:
    return Weight(row.name, row.shape, row.count, prod(row.shape))


def _packed(row: Row, name: str, shape: Shape, *, assumed: bool = False) -> Weight:
    return Weight(name, shape, row.count, prod(shape), assumed=assumed)


def _unknown(row: Row, name: str) -> Weight:
    return Weight(name, (), row.count, None, assumed=True)


def _by_words(row: Row, name: str, out: int, bits: int | None, *, assumed: bool = True) -> Weight:
    """A matrix of ``out`` rows whose values lie densely in words; unknown where they do not divide."""
    total = prod(row.shape) * _WORD_BITS.get(row.dtype, 0)
    if not bits or not out or not total or total % (bits * out):
        return _unknown(row, name)
    return _packed(row, name, (out, total // bits // out), assumed=assumed)


def _qweight(row: Row, module: str, shapes: Mapping[str, Shape], hint: PackingHint) -> Weight:
    """GPTQ, AWQ and fp_quant: words along one side; ``scales`` has one column per output feature.

    In AWQ's gemv layout and fp_quant it has one row for each, as the words have.
    """
    name = f"{module}.weight"
    scales, zeros = shapes.get(f"{module}.scales"), shapes.get(f"{module}.qzeros")
    bits = next((bits for bits, _ in hint.pairs(module)), None)
    if len(row.shape) != 2 or not scales or not all(scales):
        whole = row.dtype in _BYTE_DTYPES and len(row.shape) == 2
        return _by_words(row, name, row.shape[-1], 8) if whole else _unknown(row, name)
    if len(scales) == 2 and row.shape[0] == scales[0] and row.shape[0] != scales[-1]:
        return _by_words(row, name, row.shape[0], bits or 4)
    if zeros and 32 * zeros[-1] % scales[-1] == 0:
        bits = 32 * zeros[-1] // scales[-1] or bits
    return _by_words(row, name, scales[-1], bits, assumed=zeros is None)


def _marlin(row: Row, module: str, shapes: Mapping[str, Shape], hint: PackingHint) -> Weight:
    """Marlin: ``s`` has one column per output feature; its 2:4 form stores half of the values."""
    out = shapes[f"{module}.s"][-1] if shapes[f"{module}.s"] else 0
    bits = next((bits for bits, _ in hint.pairs(module)), 4)
    dense = _by_words(row, f"{module}.weight", out, bits)
    return _doubled(row, dense) if row.name.endswith("_24") else dense


def _doubled(row: Row, half: Weight) -> Weight:
    return half if half.parameters is None else _packed(row, half.name, (half.shape[0], 2 * half.shape[1]))


def _weight_packed(row: Row, module: str, shapes: Mapping[str, Shape], hint: PackingHint) -> Weight:
    """compressed-tensors: bytes hold two 4-bit floats, words ``32 / bits`` integers, along the inputs."""
    name, shape = f"{module}.weight", row.shape
    if not shape:
        return _unknown(row, name)
    marlin = shapes.get(f"{module}.scale_packed")
    if marlin and f"{module}.meta" in shapes:
        return _doubled(row, _by_words(row, name, marlin[-1], next((b for b, _ in hint.pairs(module)), 4)))
    if row.dtype in _BYTE_DTYPES:
        return _packed(row, name, (*shape[:-1], 2 * shape[-1]))
    scales = shapes.get(f"{module}.weight_scale")
    pair = _pair(hint.pairs(module), 32 * shape[-1], scales[-1] if scales else 0)
    if pair is None or 32 % pair[0]:
        return _unknown(row, name)
    return _packed(row, name, (*shape[:-1], shape[-1] * (32 // pair[0])))


def _pair(pairs: Sequence[Pair], bits_per_row: int, groups: int) -> Pair | None:
    """The pair that fits: so many bits of a row hold ``groups`` times as many values as one scale is for.

    A row may be padded to whole words. Without groups the first pair of one width alone is taken.
    """
    if groups > 1:
        for bits, group in pairs:
            if group and abs(bits_per_row - bits * group * groups) < 32:
                return bits, group
        if any(group for _, group in pairs):
            return None
    widths = {bits for bits, group in pairs if groups <= 1 or not group}
    return (widths.pop(), None) if len(widths) == 1 else None


def _qdata(row: Row, module: str, shapes: Mapping[str, Shape], hint: PackingHint) -> Weight:
    """torchao: bytes hold one value, or several where the scales stand for more than there are bytes."""
    name = f"{module}.weight"
    scale = next(
        (shapes[key] for key in (f"{module}._weight_scale", f"{module}.weight_scale") if key in shapes), None
    )
    if row.dtype not in _BYTE_DTYPES:
        return Weight(name, row.shape, row.count, prod(row.shape))
    if not scale or len(row.shape) != 2:
        return _unknown(row, name)
    groups, rest = divmod(prod(scale), row.shape[0]) if row.shape[0] else (0, 0)
    groups = 0 if rest else groups
    if groups == 1 and row.dtype == "I8":
        return Weight(name, row.shape, row.count, prod(row.shape))  # one scale per row: whole bytes
    sizes = {group for _, group in hint.pairs(module) if group} | (
        {hint.group_size} if hint.group_size else set()
    )
    fits = {f for size in sizes for f in (1, 2, 4, 8) if f * row.shape[1] == groups * size}
    return (
        _packed(row, name, (row.shape[0], fits.pop() * row.shape[1]))
        if len(fits) == 1
        else _unknown(row, name)
    )


def _trellis(row: Row, module: str, shapes: Mapping[str, Shape], hint: PackingHint) -> Weight:
    """EXL3: tiles of 16 x 16 weights, [in / 16, out / 16, 16 x bits]."""
    if len(row.shape) != 3:
        return _unknown(row, f"{module}.weight")
    return _packed(row, f"{module}.weight", (16 * row.shape[1], 16 * row.shape[0]))


def _exl2(row: Row, module: str, shapes: Mapping[str, Shape], hint: PackingHint) -> Weight:
    """EXL2, of several widths in one matrix: a permutation entry per input, eight outputs per scale word."""
    inputs, scales = shapes.get(f"{module}.q_invperm"), shapes.get(f"{module}.q_scale")
    if not inputs or not scales:
        return _unknown(row, f"{module}.weight")
    return _packed(row, f"{module}.weight", (8 * scales[-1], inputs[0]))


def _codes(row: Row, module: str, shapes: Mapping[str, Shape], hint: PackingHint) -> Weight:
    """AQLM: each code stands for a row of its codebook, [books, entries, outputs, inputs] per group."""
    books = shapes.get(f"{module}.codebooks")
    if not books or len(books) != 4 or len(row.shape) != 3:
        return _unknown(row, f"{module}.weight")
    return _packed(row, f"{module}.weight", (row.shape[0] * books[2], row.shape[1] * books[3]))


def _integer_weight(row: Row, module: str, shapes: Mapping[str, Shape], hint: PackingHint) -> Weight:
    """``weight`` in integers: MLX words, 4-bit floats in bytes, int8, or rows packed together."""
    shape, name = row.shape, row.name
    scales = shapes.get(f"{module}.scales")
    if row.dtype == "U32" and scales and shape and scales[-1]:
        return _mlx(row, module, scales, hint)
    scales = shapes.get(f"{module}.weight_scale") or shapes.get(f"{module}.scale")
    if row.dtype not in _BYTE_DTYPES:
        return _words(row, module, scales, hint) if prod(shape) > 1 else _plain(row)
    if hint.opaque:
        return _unknown(row, name)
    if scales and len(shape) == 2:
        rows = _row_factor(shape, scales, row.dtype)
        if rows > 1:
            return _packed(row, name, (rows * shape[0], shape[1]), assumed=True)
    if not scales or not len(shape) == len(scales) > 1:
        return _packed(row, name, shape, assumed=True)
    sizes = (*_BLOCK_SCALES, *(group for bits, group in hint.pairs(module) if bits == 4 and group))
    two_each = any(2 * shape[-1] == size * scales[-1] for size in sizes)
    return _packed(row, name, (*shape[:-1], 2 * shape[-1])) if two_each else _plain(row)


def _words(row: Row, module: str, scales: Shape | None, hint: PackingHint) -> Weight:
    """Quark's integers: words along the outputs, scales as in GPTQ."""
    if hint.opaque or len(row.shape) != 2 or not scales or len(scales) != 2:
        return _unknown(row, row.name)
    bits = next((bits for bits, _ in hint.pairs(module)), 4)
    return _by_words(row, row.name, scales[-1], bits)


def _row_factor(shape: Shape, scales: Shape, dtype: str) -> int:
    """Rows packed into one: BitNet's four with one scale for all, Ascend's two with one scale per row."""
    if prod(scales) == 1:
        return 4 if dtype == "U8" else 1
    factor, rest = divmod(scales[0], shape[0]) if shape[0] else (1, 0)
    return factor if not rest and factor in (2, 4, 8) else 1


def _mlx(row: Row, module: str, scales: Shape, hint: PackingHint) -> Weight:
    """MLX: words along the inputs. The module's own pair, or the first that the shapes allow."""
    product, rest = divmod(32 * row.shape[-1], scales[-1])
    declared = hint.pairs(module)
    groups = [group for bits, group in declared if group and bits * group == product]
    # mlx-lm takes groups of 64 where none is stated; a module may have another width than the config says
    groups += [group for group in (*(group for _, group in declared), 64) if group and product % group == 0]
    if rest or not groups:
        return _unknown(row, row.name)
    told = {group for bits, group in declared if bits * (group or 0) == product}
    own = hint.overrides.get(module, ())
    return replace(
        _packed(row, row.name, (*row.shape[:-1], scales[-1] * groups[0]), assumed=not told),
        inputs_assumed=not any(bits * (group or 0) == product for bits, group in own),
    )


_Rule = Callable[[Row, str, Mapping[str, Shape], PackingHint], Weight]
_BY_LEAF: dict[str, _Rule] = {
    "qweight": _qweight, "B": _marlin, "B_24": _marlin, "weight_packed": _weight_packed,
    "_weight_qdata": _qdata, "weight_qdata": _qdata, "trellis": _trellis, "q_weight": _exl2, "codes": _codes,
}  # fmt: skip
_SHORT_LEAVES = frozenset({"B", "B_24"})  # names that mean something only beside their scales
# What marks a tensor as packed by a quantiser, wherever it is found.
PACKED_LEAVES = frozenset(_BY_LEAF) - _SHORT_LEAVES
