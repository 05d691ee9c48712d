"""The two implementations that engines choose between: eager, which holds the squares, and torch's sdpa."""

from __future__ import annotations

import torch
from torch.nn import functional

# What eager holds at its peak, in squares of scores of all heads. In float32 two at once, and the additive
# mask, which is one where there is one head. In half precision the softmax works in float32 before and
# after, four squares, beside the scores.
EAGER_SQUARES = 3
EAGER_SQUARES_HALF = 5


def eager_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Weights and output of all heads, as ``eager_attention_forward`` of transformers 5.19 computes them.

    ``mask`` is True where a query sees a key. KV heads are repeated for the query heads that read them.
    """
    ratio = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(ratio, dim=1), value.repeat_interleave(ratio, dim=1)
    hidden = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, torch.finfo(query.dtype).min)
    scores = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    scores = scores + hidden
    weights = functional.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    return weights, weights @ value


def sdpa_attention(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    """Output of all heads by the backend that torch picks here; ``mask`` None is causal without a mask."""
    return functional.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=mask is None, enable_gqa=True
    )
