"""The compute buffer that llama.cpp reserves on the CPU, and what it uses beside it.

ggml's graph allocator overlays tensors whose lives do not meet; what remains is the widest point of the
graph: a feed-forward, an attention, or a recurrent layer. A server computes one row of logits per slot,
so the vocabulary does not enter. Formulas of llama.cpp b11434, held against 109 real runs within 256 B
(flash attention) and against b11549 on made-up shapes of each family.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ropewalk.inspector.layer_kinds import LayerGroup
from ropewalk.planner.caches import CacheType
from ropewalk.planner.engines.llama_slots import Slots
from ropewalk.planner.shape import ModelShape

_MANY_HEADS = (
    4  # latents of all heads beside a hidden row, from where on only a row of rotary parts may fit in
)
_ROTATION_UNIT = 64  # llama.cpp b11434, src/llama-kv-cache.cpp:300-345
# Without flash attention the allocator fragments: runs with two caches were seen 5 % below the formula
# and 3 % above, b11434's own worst case is 9.4 %.
_FRAGMENTED = (95, 110)
# Where the scores are many times a block, little is left to fragment (b11549: 0.7 % below, 0.5 % above).
_WIDE_SCORES, _WIDE_FRAGMENTED = 4, (98, 104)
# States of several slots beside attention, gathered and in the scan's result: two starts (b11549) lay within
# 1 % of the sum.
_GATHERED_PERCENTS = (95, 103)


@dataclass(frozen=True, slots=True)
class Bounds:
    """A figure in bytes and its range; equal where it is exact."""

    low: int
    bytes: int
    high: int


@dataclass(frozen=True, slots=True)
class Span:
    """A lower and an upper bound, equal where the figure is exact."""

    low: int
    high: int

    @classmethod
    def widest(cls, spans: list[Span]) -> Span:
        """The bounds of the largest of them."""
        return cls(max(span.low for span in spans), max(span.high for span in spans))


@dataclass(frozen=True, slots=True)
class Graph:
    """What the buffer needs to know of a model and its cache types, worked out once.

    ``block`` is the widest point of a block in numbers per token, ``mixer`` that of attention alone and
    ``attention`` beside copies of its cache,
    ``rotation`` the bytes of the matrices that rotate quantised caches, ``kv_values`` the widest values.
    """

    shape: ModelShape
    key: CacheType
    block: Span
    mixer: Span
    attention: Span
    rotation: int
    kv_values: int


def graph_of(shape: ModelShape, key: CacheType, value: CacheType) -> Graph:
    """The graph of a model with these cache types."""
    attending = [group for group in shape.layers if group.head_dim_k]
    attention = Span.widest([Span(0, 0), *(_attention(shape, group) for group in attending)])
    mixer = _gated(shape, attention, copied=False)
    return Graph(
        shape=shape,
        key=key,
        block=Span.widest([_feed_forward(shape), mixer]),
        mixer=mixer,
        attention=_gated(shape, attention, copied=True),
        rotation=_rotation(attending, key, value),
        kv_values=max((_kv_values(group) for group in attending), default=0),
    )


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of what every graph has: one hidden ``row`` of a ubatch of ``rows`` tokens, the ``masks`` of all
    caches, ``indices`` that transposed values are stored by, and small ``fixed`` inputs."""

    rows: int
    row: int
    masks: int
    indices: int
    fixed: int


def sizes_of(graph: Graph, slots: Slots, *, flash: bool) -> Sizes:
    """The sizes for one ubatch over the full cache."""
    rows, lengths = _rows(slots), _cache_lengths(graph.shape, slots)
    return Sizes(
        rows=rows,
        row=4 * rows * graph.shape.hidden_size,
        masks=(2 if flash else 4) * rows * sum(lengths),
        indices=0 if flash else 8 * rows * len(lengths) * graph.kv_values,
        fixed=32 + graph.rotation * len(lengths) + 36 * rows,
    )


def compute_buffer(graph: Graph, slots: Slots, *, flash: bool) -> Bounds:
    """Bytes of the CPU compute buffer for one ubatch over the full cache."""
    rows = _rows(slots)
    lengths = _cache_lengths(graph.shape, slots)
    fixed = 32 + graph.rotation * len(lengths)
    widest = Span.widest([graph.block, *_states(graph.shape, slots)])
    if graph.shape.relative_positions:
        return _relative(graph.shape, lengths, rows)
    if not flash:
        return _without_flash(graph, lengths, rows, widest, fixed)
    # Masks in f16; positions, indices and output rows take 36 bytes a token, 20 more per second cache.
    # Latent attention stores no values, and so has no indices for them.
    inputs = (20 if _has_latent(graph.shape) else 36) + 20 * (len(lengths) - 1)
    masks = 2 * rows * sum(lengths)
    low, high = (masks + rows * (4 * values + inputs) + fixed for values in (widest.low, widest.high))
    if len(lengths) > 1 and not _has_head_norms(graph.shape):
        low -= 4 * rows  # Gemma 2: a number a token less
    if _has_latent(graph.shape):  # and, seen in one of two models, the numbers of the chosen experts
        return Bounds(low, high, high + 4 * rows * graph.shape.num_experts_per_tok)
    return Bounds(low, high, high)


def _has_head_norms(shape: ModelShape) -> bool:
    tensors = shape.block.tensors if shape.block else ()
    return any("q_norm" in tensor.name for tensor in tensors)


def _states(shape: ModelShape, slots: Slots) -> list[Span]:
    """The widest point of each kind of recurrent layer."""
    return [_recurrent(shape, group, slots) for group in shape.layers if group.state]


def _relative(shape: ModelShape, lengths: list[int], rows: int) -> Bounds:
    """Positions as a bias on the scores, for which there is no flash attention (T5): scores three times, an
    f32 mask and the buckets beside six hidden rows."""
    cells = max(lengths)
    count = 4 * rows * ((3 * shape.num_attention_heads + 2) * cells + 6 * shape.hidden_size) + 40 * rows
    return Bounds(count * 97 // 100, count, count * 104 // 100)


def beside_logits(graph: Graph, slots: Slots, compute: Bounds) -> Bounds:
    """The buffer where logits are reserved for every token of a ubatch (``n_outputs_max`` 0, the library's
    default) and not for one a slot.

    They come last, when two hidden rows and the token ids are all that lives; where the memory freed below
    them has no room for those, they are moved up by less than a block. Where attention is wider it stays the
    widest, less the hidden row that is not picked out then; less two with quantised caches.
    llama-cpp-python 0.3.36, 120 configurations of two models: logits and two hidden rows in 76, three in 22.
    """
    rows = _rows(slots)
    logits = 4 * rows * graph.shape.vocab_size
    least = logits + rows * (8 * graph.shape.hidden_size + 4) + 32
    most = logits + 4 * rows * graph.block.high
    picked = rows * (4 * graph.shape.hidden_size + 8)
    return Bounds(
        max(compute.low - 2 * picked, least), max(compute.bytes - picked, least), max(compute.high, most)
    )


def _without_flash(graph: Graph, lengths: list[int], rows: int, widest: Span, fixed: int) -> Bounds:
    """Scores of every head beside f32 masks; values are stored transposed, by one index per element."""
    inputs = (20 if _has_latent(graph.shape) else 28) + 12 * (len(lengths) - 1)
    inputs += 8 * len(lengths) * graph.kv_values
    masks = 4 * rows * sum(lengths)
    scores = _score_bytes(graph.shape, max(lengths), graph.key)
    low = masks + rows * (max(4 * widest.low, scores.low) + inputs) + fixed
    wide = scores.low > _WIDE_SCORES * 4 * widest.high
    count = masks + rows * (max(4 * widest.high, scores.high) + inputs) + fixed
    percent_low, percent_high = _WIDE_FRAGMENTED if wide else _FRAGMENTED
    low = low * percent_low // 100 if wide or len(lengths) > 1 else low
    return Bounds(low, count, count * percent_high // 100)


def _score_bytes(shape: ModelShape, cells: int, key: CacheType) -> Span:
    """Bytes per token while scores exist: lower and upper bound over the kinds of attention."""
    spans = [Span(0, 0)]
    for group in shape.layers:
        scores = 4 * (group.num_attention_heads or shape.num_attention_heads) * cells
        if group.kind == "latent":
            mixer = _latent(shape, group)
            spans.append(Span(4 * mixer.low + scores, 4 * mixer.high + scores))
        elif group.head_dim_k:
            # A quantised key is multiplied as it is stored: one f32 copy of the queries less.
            copies = 8 if key.quantised else 12
            beside = 12 * shape.hidden_size + copies * _head_values(shape, group)
            spans.append(Span(beside + scores, beside + scores))
    return Span.widest(spans)


def _rows(slots: Slots) -> int:
    """Tokens of one ubatch, rounded up so that each slot has as many."""
    return -(-slots.n_ubatch // slots.num_slots) * slots.num_slots


def _cache_lengths(shape: ModelShape, slots: Slots) -> list[int]:
    """Cells of each separate cache: one for all full layers, one for all windows."""
    cells: dict[bool, int] = {}
    for group in shape.layers:
        if group.head_dim_k:
            windowed = bool(group.window)
            cells[windowed] = max(cells.get(windowed, 0), slots.layer_cells(group))
    return list(cells.values()) or [0]


def _kv_values(group: LayerGroup) -> int:
    return (group.num_key_value_heads or 0) * (group.head_dim_v or 0)


def _head_values(shape: ModelShape, group: LayerGroup) -> int:
    return (group.num_attention_heads or shape.num_attention_heads) * (group.head_dim_k or 0)


def _feed_forward(shape: ModelShape) -> Span:
    """Numbers per token while a feed-forward runs: three inner widths and five hidden ones.

    The experts' outputs (one hidden width for each expert used) take the place of two inner widths
    where they fit there, and are added where they do not.
    """
    hidden = shape.hidden_size
    spans = []
    if not shape.num_experts or shape.has_dense_blocks:
        spans.append(_dense(shape))
    if shape.num_experts:
        used = shape.num_experts_per_tok
        inner = 3 * used * shape.expert_len + 5 * hidden
        most = inner + used * hidden if hidden > 2 * shape.expert_len else inner
        if _has_tensor(shape, "sinks"):  # gpt-oss: a hidden row less, and the router's scores
            inner, most = inner - hidden, most - hidden + shape.num_experts
        spans.append(Span(inner, most))
    widest = Span.widest(spans)
    if not shape.per_layer_len:
        return widest
    # Inputs of every block: four times while they are made, twice beside a block (Gemma 3n, Gemma 4 E2B).
    made = 4 * shape.per_layer_len + 5 * hidden
    beside = Span(widest.low + 2 * shape.per_layer_len, widest.high + 2 * shape.per_layer_len)
    return Span.widest([Span(made, made + 1), beside])


def _dense(shape: ModelShape) -> Span:
    """Three inner widths with a gate, one without (the activation is written over its input), and five hidden
    rows; a parallel block keeps one more, but where a bias is added to the first product.

    Exact for b11549: GPT-2, Phi-2, GPT-NeoX, Falcon, StarCoder2 and Nemotron at three widths each.
    """
    hidden, inner = shape.hidden_size, shape.intermediate_size
    if shape.gated or not shape.parallel_block:
        width = (3 if shape.gated else 1) * inner + (6 if shape.parallel_block else 5) * hidden
        return Span(width, width)
    low, high = (5, 5) if _adds_bias(shape) else (6, 6) if shape.block else (5, 6)
    return Span(inner + low * hidden, inner + high * hidden)


def _adds_bias(shape: ModelShape) -> bool:
    """Whether the feed-forward adds a bias to its inner width."""
    inner = (shape.intermediate_size,)
    return any(
        tensor.name.endswith(".bias") and tensor.shape == inner
        for tensor in (shape.block.tensors if shape.block else ())
    )


def _attention(shape: ModelShape, group: LayerGroup) -> Span:
    """Numbers per token while attention runs.

    Bounds of what b11549 reserves for 20 made-up shapes; only models with narrow feed-forwards reach them. A
    parallel block keeps the row that both parts read (Phi-2).
    """
    hidden = shape.hidden_size
    if group.kind == "latent":
        return _latent(shape, group)
    heads = _head_values(shape, group)
    low = min(5 * hidden + 2 * heads, 3 * hidden + 3 * heads)
    kept = hidden * shape.parallel_block
    most = max(low, 3 * hidden + 3 * heads + 2 * _kv_values(group) + kept)
    fused = not shape.gated and _has_tensor(shape, "attn_qkv")  # met exactly by GPT-2, GPT-NeoX and Phi-2
    return Span(most if fused else low, most)


def _gated(shape: ModelShape, attention: Span, *, copied: bool) -> Span:
    """Attention beside delta nets, whose queries come with a gate as wide (Qwen3-Next, Qwen3.5).

    b11549, four models: five hidden rows and four of the heads, five beside copied caches.
    """
    if not any(len(tensor.shape) == 3 for group in shape.layers for tensor in group.state):
        return attention
    if _has_tensor(shape, "ssm_in."):
        return attention
    groups = [group for group in shape.layers if group.head_dim_k]
    heads = max((_head_values(shape, group) for group in groups), default=0)
    values = max((_kv_values(group) for group in groups), default=0)
    least = 5 * shape.hidden_size + 4 * heads
    return Span(max(attention.low, least), max(attention.high, least + (heads if copied else values)))


def _latent(shape: ModelShape, group: LayerGroup) -> Span:
    """Queries before and after absorption, and the latent values of every head.

    Bounds of what b11549 reserves for 80 made-up shapes. The upper one is exact for 128 heads with a
    latent of 512; with fewer, allocations fit into the gaps of others.
    """
    num_heads = group.num_attention_heads or shape.num_attention_heads
    hidden, rotary = shape.hidden_size, shape.latent_rotary_dim
    absorbed = 2 * num_heads * (shape.kv_lora_rank or group.head_dim_k or 0)
    most = absorbed + num_heads * (shape.latent_key_dim + 2 * rotary) + 5 * hidden
    if num_heads * (shape.kv_lora_rank or 0) > _MANY_HEADS * hidden:
        return Span(most - num_heads * rotary, most)
    return Span(absorbed + num_heads * rotary + 4 * hidden, most)


def _has_latent(shape: ModelShape) -> bool:
    return any(group.kind == "latent" for group in shape.layers)


def _recurrent(shape: ModelShape, group: LayerGroup, slots: Slots) -> Span:
    """A recurrent layer, with the states of all slots beside it."""
    sizes = {tensor.name: tensor.shape for tensor in group.state}
    hidden = shape.hidden_size
    channels = max(sizes.get("conv", (hidden,)))
    others = [dims for name, dims in sizes.items() if name != "conv"]
    inner = max((prod(dims[:-1]) for dims in others), default=channels)
    elements = group.state_elements * slots.num_slots
    states = -(-2 * elements // slots.n_ubatch)
    if "wkv" in sizes:
        # Rows of the time mix: RWKV7 20, RWKV6 15 (b11549, at two widths each).
        rows = (20 if _has_tensor(shape, "time_mix_k_k") else 15) * hidden
        return Span(rows, rows + states)
    cubes = [dims for dims in others if len(dims) == 3]
    if cubes and "conv" in sizes and not _is_delta_net(shape, channels, inner, cubes[0]):
        return _mamba2(shape, group, slots, channels, inner, cubes[0][0])
    if cubes and "conv" in sizes:
        # Projection, convolution and scan (b11549, made-up shapes; real ones are hidden behind a wider part).
        either = sorted((3 * channels, 2 * channels + inner + 2 * hidden))
        return Span(either[0], either[1] + states)
    return Span(channels + 2 * hidden, 6 * inner + 3 * max(channels - inner, 0) + 5 * hidden + states)


def _is_delta_net(shape: ModelShape, channels: int, inner: int, state: tuple[int, ...]) -> bool:
    """A delta net convolves queries and keys beside its values; Mamba2 the two inputs of its groups."""
    if shape.weights.tensors:
        return not any("ssm_in." in one.name for one in shape.weights.tensors)
    return any(group.head_dim_k for group in shape.layers) and state[1] == state[2]


def _mamba2(
    shape: ModelShape, group: LayerGroup, slots: Slots, channels: int, inner: int, heads: int
) -> Span:
    """Projection, convolution, gate and scan of Mamba2; attention in the same layer keeps two hidden rows.

    b11549: two made-up shapes, Mamba2, Granite 4, Falcon-H1 and Nemotron-H 8B, with one slot and several.
    """
    projection = inner + channels + heads
    width = projection + 2 * channels + 3 * inner + shape.hidden_size * (3 if group.head_dim_k else 1)
    kept = -(-(group.state_elements + 3 * channels) * slots.num_slots // slots.n_ubatch)
    if slots.num_slots == 1 or not any(other.head_dim_k for other in shape.layers):
        return Span(width, width + 2 * kept)
    gathered = projection + 2 * channels + 4 * inner + 2 * kept
    low, high = (gathered * percent // 100 for percent in _GATHERED_PERCENTS)
    return Span.widest([Span(width, width), Span(low, high)])


def _has_tensor(shape: ModelShape, name: str) -> bool:
    """Whether the typical block, or any, has a tensor of this name."""
    if any(name in one.name for one in shape.weights.tensors):
        return True
    return any(name in tensor.name for tensor in (shape.block.tensors if shape.block else ()))


def _rotation(attending: list[LayerGroup], key: CacheType, value: CacheType) -> int:
    """Bytes of the Hadamard matrices that quantised caches are rotated by, per cache; latents are not."""
    dims = {group.head_dim_k or 0 for group in attending if group.kind != "latent"}
    if not dims or any(dim % _ROTATION_UNIT for dim in dims):
        return 0
    dim = max(dims)
    side = dim & -dim
    return 4 * side**2 * key.quantised + 4 * _ROTATION_UNIT**2 * value.quantised
