"""Work of a plan: FLOPs of prefill and decode, live cells of the mask, bytes read per token.

FLOPs are 2 x multiply-adds. Left out: norms, activations, the rotation itself and softmax (below 1 %).
"""

from __future__ import annotations

from ropewalk.inspector.layer_kinds import LayerGroup
from ropewalk.planner.caches import CacheType
from ropewalk.planner.calibration import Calibration, calibrated_speed
from ropewalk.planner.machine import Machine
from ropewalk.planner.params import linear_parameters
from ropewalk.planner.records import Compute, Decode, Mask, Prefill, PromptWork, Speed
from ropewalk.planner.roofline import Attained, roofline_speed
from ropewalk.planner.shape import ModelShape

_FAR = 1 << 40  # tokens; a crossover beyond this is none
_STATE_BYTES = 4


def causal_cells(tokens: int) -> int:
    """Live cells of a causal mask: n (n + 1) / 2."""
    return tokens * (tokens + 1) // 2


def window_cells(tokens: int, window: int) -> int:
    """Live cells where each token sees itself and the ``window - 1`` before it."""
    if tokens <= window:
        return causal_cells(tokens)
    return window * tokens - window * (window - 1) // 2


def chunk_cells(tokens: int, chunk: int) -> int:
    """Live cells where attention is causal within chunks of ``chunk`` tokens."""
    whole, rest = divmod(tokens, chunk)
    return whole * causal_cells(chunk) + causal_cells(rest)


def padded_cells(tokens: int, padding: int) -> int:
    """Live cells of a causal mask whose first ``padding`` tokens are left padding."""
    return causal_cells(tokens - padding)


def group_cells(group: LayerGroup, tokens: int, encoder_len: int | None = None) -> int:
    """Live cells of one head of a layer of this group."""
    if group.kind == "cross":
        return tokens * (encoder_len or tokens)
    if group.kind == "chunked" and group.window:
        return chunk_cells(tokens, group.window)
    if group.window:
        pooled = causal_cells(tokens) // group.compress_ratio if group.compress_ratio else 0
        return window_cells(tokens, group.window) + pooled
    return causal_cells(tokens)


def compute_of(
    shape: ModelShape,
    *,
    context_len: int,
    key: CacheType,
    value: CacheType,
    machine: Machine,
    calibration: Calibration | None = None,
    attained: Attained | None = None,
) -> Compute:
    """The work of one sequence of ``context_len`` tokens, and of the token after it.

    Its speed is predicted from ``calibration`` where there is one, else estimated from what is ``attained``
    of the machine's figures, else bounded by them.
    """
    work = work_of(shape, length=context_len, key=key, value=value)
    windows = [group.window for group in shape.layers if group.window]
    return Compute(
        prefill=work.prefill,
        attention_share=work.attention_share,
        crossover_len=_crossover(shape, linear_parameters(shape)),
        score_matrix_bytes=context_len**2 * shape.num_attention_heads * shape.dtype_bytes,
        mask=Mask(causal_cells(context_len), window_cells(context_len, max(windows)) if windows else None),
        decode=work.decode,
        speed=_speed(work, machine, calibration, attained, shape.num_layers),
    )


def speed_of(
    shape: ModelShape,
    *,
    context_len: int,
    key: CacheType,
    value: CacheType,
    machine: Machine,
    calibration: Calibration | None = None,
    attained: Attained | None = None,
) -> Speed | None:
    """The speed alone of :func:`compute_of`."""
    work = work_of(shape, length=context_len, key=key, value=value)
    return _speed(work, machine, calibration, attained, shape.num_layers)


def _speed(
    work: PromptWork,
    machine: Machine,
    calibration: Calibration | None,
    attained: Attained | None,
    num_layers: int,
) -> Speed | None:
    if calibration is not None:
        return calibrated_speed(calibration, work)
    expected = roofline_speed(work, machine, attained, num_layers=num_layers) if attained else None
    return expected or _bound(work.prefill, work.decode, machine)


def work_of(shape: ModelShape, *, length: int, key: CacheType, value: CacheType) -> PromptWork:
    """FLOPs of a prompt of ``length`` tokens; bytes and FLOPs of the token after it."""
    linear = linear_parameters(shape)
    head = shape.vocab_size * shape.hidden_size
    # One row of logits per prompt: an engine computes no others.
    linear_flops = 2 * (linear * length + head)
    square = causal = 0
    for group in shape.layers:
        per_cell = 2 * pair_values(shape, group) * group.count
        square += per_cell * length**2
        causal += per_cell * group_cells(group, length, shape.encoder_len)
    decode = Decode(
        bytes_per_token=_weight_bytes_read(shape) + _cache_bytes_read(shape, length, key, value),
        flops_per_token=2 * (linear + head) + _decode_attention(shape, length),
    )
    return PromptWork(length, Prefill(linear_flops, square, causal), decode)


def pair_values(shape: ModelShape, group: LayerGroup) -> int:
    """Multiply-adds of one query-key pair over all heads of one layer: scores and weighted values.

    Latent attention is priced as prefill does it, with keys and values projected up.
    """
    heads = group.num_attention_heads or shape.num_attention_heads
    if group.kind == "latent":
        if not shape.kv_lora_rank:  # the row itself is key and value of every head
            return heads * 2 * (group.head_dim_k or 0)
        return heads * (shape.latent_key_dim + shape.latent_value_dim)
    if group.kind in ("recurrent", "none"):
        return 0
    return heads * ((group.head_dim_k or 0) + (group.head_dim_v or 0))


def _crossover(shape: ModelShape, linear: int) -> int | None:
    """The length at which causal attention costs as much as the blocks' linear layers.

    Half squares (n^2 / 2) are compared, so that for full attention it is parameters / (heads x head_dim).
    """
    per_cell = [(group, pair_values(shape, group) * group.count) for group in shape.layers]

    def attention_leads(tokens: int) -> bool:
        return sum(each * _twice_cells(group, tokens) for group, each in per_cell) >= 2 * linear * tokens

    # Full layers alone would lead from here on; windows only bring it nearer.
    squares = sum(each for group, each in per_cell if not group.window)
    low, high = 0, 2 * linear // squares + 1 if squares else _FAR
    if not attention_leads(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if attention_leads(middle) else (middle, high)
    return high


def _twice_cells(group: LayerGroup, tokens: int) -> int:
    fit_limits = group.window or tokens
    pooled = tokens**2 // group.compress_ratio if group.compress_ratio else 0
    return (tokens**2 if tokens <= fit_limits else (2 * tokens - fit_limits) * fit_limits) + pooled


def _decode_attention(shape: ModelShape, context_len: int) -> int:
    return sum(
        2 * pair_values(shape, group) * group.count * group.rows(context_len) for group in shape.layers
    )


def _cache_bytes_read(shape: ModelShape, context_len: int, key: CacheType, value: CacheType) -> int:
    rows = sum(
        group.token_bytes(key, value) * group.count * group.rows(context_len)
        for group in shape.layers
        if group.kind != "cross"
    )
    states = sum(group.state_elements * group.count for group in shape.layers)
    return rows + 2 * _STATE_BYTES * states


def _weight_bytes_read(shape: ModelShape) -> int:
    """Bytes of weights that one token reads: all but the embedding table and the experts not chosen."""
    weights = shape.weights
    head = weights.output_head or weights.embedding
    experts = sum(weights.experts)
    chosen = experts * shape.num_experts_per_tok // shape.num_experts if shape.num_experts else experts
    return head + weights.other + sum(weights.layers) - experts + chosen


def _bound(prefill: Prefill, decode: Decode, machine: Machine) -> Speed | None:
    """Bounds from nominal figures; None where neither is known."""
    if machine.peak_flops is None and machine.bandwidth is None:
        return None
    peak, bandwidth = machine.peak_flops, machine.bandwidth
    work = prefill.linear_flops + prefill.attention_flops_causal
    seconds = max(
        decode.bytes_per_token / bandwidth if bandwidth else 0.0,
        decode.flops_per_token / peak if peak else 0.0,
    )
    return Speed(
        basis="bound",
        source="nominal peak and bandwidth of the device",
        prefill_seconds=work / peak if peak else None,
        decode_tokens_per_second=1 / seconds if bandwidth else None,
    )
