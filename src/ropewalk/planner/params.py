"""How many parameters a token's forward pass multiplies, and what a bare config's weights would take."""

from __future__ import annotations

from math import prod

from ropewalk.inspector.layer_kinds import LayerGroup
from ropewalk.inspector.records import WeightBytes
from ropewalk.planner.shape import ModelShape


def linear_parameters(shape: ModelShape) -> int:
    """Parameters of the blocks' matrices that one token is multiplied by; embedding and head left out.

    From the tensors where there are any, less the vectors (norms, biases) of the typical block in every
    block; else from the config's dimensions.
    """
    if shape.active_parameters is None or shape.block is None:
        used = _feed_forward_parameters(shape) + _chosen(shape, _expert_parameters(shape))
        return sum(_mixers_by_block(shape)) + used * len(_feed_forward_blocks(shape))
    tables = shape.vocab_size * shape.hidden_size * (1 if shape.tied else 2)
    vectors = sum(tensor.parameters for tensor in shape.block.tensors if len(tensor.shape) < 2)
    return max(0, shape.active_parameters - tables - vectors * shape.num_layers - shape.hidden_size)


def _chosen(shape: ModelShape, experts: int) -> int:
    """The share of routed experts that one token uses."""
    return experts * shape.num_experts_per_tok // shape.num_experts if shape.num_experts else experts


def estimated_weights(shape: ModelShape, *, bits: float | None = None) -> WeightBytes:
    """What the weights of a bare config take: an estimate, no tensor was read.

    ``bits`` per parameter of the blocks where they are quantised, scales included; embedding and head
    stay at the model's dtype.
    """
    table = shape.vocab_size * shape.hidden_size * shape.dtype_bytes
    width = bits / 8 if bits else shape.dtype_bytes
    rest_width = shape.dtype_bytes if shape.packs_experts_only else width
    layers = _mixers_by_block(shape)
    experts = [0] * len(layers)
    rest, routed = _feed_forward_parameters(shape), _expert_parameters(shape)
    matrices = 3 if shape.gated else 2
    for index in _feed_forward_blocks(shape):
        if shape.num_experts and index < shape.dense_blocks:
            layers[index] += matrices * shape.hidden_size * shape.intermediate_size
            continue
        layers[index] += rest + routed
        experts[index] = routed
    return WeightBytes(
        embedding=table,
        output_head=0 if shape.tied else table,
        other=_per_layer_inputs(shape) * shape.dtype_bytes,
        layers=tuple(
            int((count - routed) * rest_width + routed * width)
            for count, routed in zip(layers, experts, strict=True)
        ),
        experts=tuple(int(count * width) for count in experts),
        mtp=0,
        towers=0,
    )


def _per_layer_inputs(shape: ModelShape) -> int:
    """The table of inputs that every block gets of its own, what projects them, and each block's two gates
    (Gemma 3n, Gemma 4)."""
    width = shape.per_layer_input_len * shape.num_layers
    return width * (shape.vocab_size + shape.hidden_size) + 2 * width * shape.hidden_size


def _feed_forward_blocks(shape: ModelShape) -> list[int]:
    """Blocks with a feed-forward: all, or those that keep nothing where each block is one of the two.

    A model of Mamba's blocks alone has none: the inner width that it states is the state's.
    """
    if not shape.num_attention_heads and all(_is_mamba(group) for group in shape.layers):
        return []
    alone = [index for group in shape.layers if group.kind == "none" for index in group.indices]
    return alone or list(range(shape.num_layers))


def _is_mamba(group: LayerGroup) -> bool:
    return group.kind == "recurrent" and any(tensor.name == "ssm" for tensor in group.state)


def _mixers_by_block(shape: ModelShape) -> list[int]:
    """Parameters of what mixes tokens in each block: self-attention and cross-attention may share one."""
    mixers = [0] * shape.num_layers
    for group in shape.layers:
        if group.kind == "none":
            continue
        parameters = _mixer_parameters(shape, group)
        for index in group.indices:
            mixers[index] += parameters
    return mixers


def _feed_forward_parameters(shape: ModelShape) -> int:
    """Feed-forward, or shared expert and router, of one block."""
    dense = shape.shared_expert_len if shape.num_experts else shape.intermediate_size
    return shape.hidden_size * ((3 if shape.gated else 2) * dense + shape.num_experts)


def _expert_parameters(shape: ModelShape) -> int:
    return shape.num_experts * 3 * shape.hidden_size * shape.expert_len


def _mixer_parameters(shape: ModelShape, group: LayerGroup) -> int:
    hidden = shape.hidden_size
    if group.kind == "recurrent":
        return _recurrent_parameters(shape, group)
    heads = group.num_attention_heads or shape.num_attention_heads
    if group.kind == "latent":
        latent, rotary = shape.kv_lora_rank, shape.latent_rotary_dim
        keys, values = shape.latent_key_dim, shape.latent_value_dim
        query = heads * keys * (shape.q_lora_rank or hidden) + hidden * shape.q_lora_rank
        return (
            query
            + hidden * (latent + rotary)
            + latent * heads * (keys - rotary + values)
            + heads * values * hidden
        )
    key_dim, value_dim = group.head_dim_k or 0, group.head_dim_v or 0
    kv = (group.num_key_value_heads or 0) * (key_dim + value_dim)
    beside = _recurrent_parameters(shape, group) if any(t.name == "ssm" for t in group.state) else 0
    return hidden * (heads * (key_dim + value_dim) + kv) + beside


def _recurrent_parameters(shape: ModelShape, group: LayerGroup) -> int:
    """Projections in and out of a linear-attention or state-space layer, from its state's dimensions."""
    sizes = {tensor.name: tensor.shape for tensor in group.state}
    channels = max(sizes.get("conv", (shape.hidden_size,)))
    inner = prod(sizes["ssm"][:2]) if len(sizes.get("ssm", ())) == 3 else channels
    return shape.hidden_size * (channels + 2 * inner)
