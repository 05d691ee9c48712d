"""A decoder's blocks in float32: what transformers computes for these families, one block at a time.

Shapes: ``x`` is [batch, tokens, hidden]; queries are [batch, num_attention_heads, tokens, head_dim], keys and
values the same with num_key_value_heads. Source: transformers 5.19, models/llama/modeling_llama.py.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional

from ropewalk.lab.decoder import Decoder
from ropewalk.lab.eager import eager_attention
from ropewalk.lab.weights import Weights

Tensors = dict[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Turn:
    """Cosine and sine per position and pair, [tokens, pairs], times the attention factor."""

    cos: torch.Tensor
    sin: torch.Tensor


@dataclass(frozen=True, slots=True)
class Projected:
    """Queries, keys and values of a layer after their norms; ``turned_*`` after the rotation too."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    turned_query: torch.Tensor
    turned_key: torch.Tensor

    def of_first(self) -> Projected:
        """Those of the first prompt of the batch, without the batch."""
        parts = (self.query, self.key, self.value, self.turned_query, self.turned_key)
        return Projected(*(part[0] for part in parts))


def turn_at(decoder: Decoder, positions: torch.Tensor, *, seq_len: int) -> Turn:
    """The rotation at these positions of a prompt of ``seq_len`` tokens; angles in float64."""
    rotation = decoder.rotation(seq_len)
    angles = positions.to(torch.float64)[:, None] * torch.tensor(rotation.rates, dtype=torch.float64)
    factor = rotation.attention_factor
    return Turn((angles.cos() * factor).to(torch.float32), (angles.sin() * factor).to(torch.float32))


def rotate(vectors: torch.Tensor, turn: Turn) -> torch.Tensor:
    """Turn pair i, the numbers i and i + pairs, of each head; what lies beyond the pairs stays."""
    pairs = turn.cos.shape[-1]
    first, second, rest = vectors.split([pairs, pairs, vectors.shape[-1] - 2 * pairs], dim=-1)
    turned = (first * turn.cos - second * turn.sin, second * turn.cos + first * turn.sin)
    return torch.cat([*turned, rest], dim=-1)


def visible(tokens: int, window: int | None) -> torch.Tensor:
    """True where a query (row) sees a key (column): itself and before, within the window where there is
    one."""
    back = torch.arange(tokens)[:, None] - torch.arange(tokens)[None, :]
    return (back >= 0) if window is None else (back >= 0) & (back < window)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """x over its root mean square, times the weight."""
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def load_block(weights: Weights, decoder: Decoder, layer: int) -> Tensors:
    """All tensors of a layer by their names within it."""
    start = decoder.block(layer)
    return {name: weights.tensor(start + name) for name in weights.names(start) if "rotary_emb" not in name}


def project(x: torch.Tensor, block: Tensors, decoder: Decoder, turn: Turn | None) -> Projected:
    """Queries, keys and values of a layer from its input; ``turn`` None for a layer without rotation."""
    normed = rms_norm(x, block["input_layernorm.weight"], decoder.rms_norm_eps)
    query, key, value = (
        _heads(_linear(normed, block, f"self_attn.{name}_proj"), decoder.head_dim) for name in "qkv"
    )
    if "self_attn.q_norm.weight" in block:
        query = rms_norm(query, block["self_attn.q_norm.weight"], decoder.rms_norm_eps)
        key = rms_norm(key, block["self_attn.k_norm.weight"], decoder.rms_norm_eps)
    turned = (query, key) if turn is None else (rotate(query, turn), rotate(key, turn))
    return Projected(query, key, value, *turned)


def finish_block(
    x: torch.Tensor, projected: Projected, block: Tensors, *, mask: torch.Tensor, eps: float
) -> torch.Tensor:
    """The rest of a block: attention over all heads, its output projection, the feed-forward."""
    _, mixed = eager_attention(projected.turned_query, projected.turned_key, projected.value, mask)
    x = x + _linear(mixed.transpose(1, 2).flatten(2), block, "self_attn.o_proj")
    normed = rms_norm(x, block["post_attention_layernorm.weight"], eps)
    gate = functional.silu(_linear(normed, block, "mlp.gate_proj"))
    return x + _linear(gate * _linear(normed, block, "mlp.up_proj"), block, "mlp.down_proj")


def logits_of(x: torch.Tensor, weights: Weights, decoder: Decoder) -> torch.Tensor:
    """The final norm and the output head, which is the embedding where none is stored."""
    normed = rms_norm(x, weights.tensor(f"{decoder.prefix}norm.weight"), decoder.rms_norm_eps)
    head = "lm_head.weight" if weights.has("lm_head.weight") else f"{decoder.prefix}embed_tokens.weight"
    return torch.cat([normed @ rows.T for rows in weights.slices(head)], dim=-1)


def _linear(x: torch.Tensor, block: Tensors, name: str) -> torch.Tensor:
    return functional.linear(x, block[f"{name}.weight"], block.get(f"{name}.bias"))


def _heads(x: torch.Tensor, head_dim: int) -> torch.Tensor:
    return x.unflatten(-1, (-1, head_dim)).transpose(1, 2)
