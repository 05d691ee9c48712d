"""One head by hand: scores, mask, weights, output, step by step from its queries, keys and values."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ropewalk.lab.forward import Projected


@dataclass(frozen=True, slots=True)
class Head:
    """[tokens, tokens] scores (scaled, unmasked), mask and weights, and the [tokens, head_dim] output."""

    scores: torch.Tensor
    mask: torch.Tensor
    weights: torch.Tensor
    output: torch.Tensor


def head_of(projected: Projected, *, head: int, kv_head: int, mask: torch.Tensor) -> Head:
    """Query head ``head`` reading KV head ``kv_head``; ``projected`` is of one prompt, without a batch."""
    query, key = projected.turned_query[head], projected.turned_key[kv_head]
    scores = query @ key.T / query.shape[-1] ** 0.5
    live = scores.masked_fill(~mask, float("-inf"))
    powers = (live - live.max(dim=-1, keepdim=True).values).exp()
    weights = powers / powers.sum(dim=-1, keepdim=True)
    return Head(scores, mask, weights, weights @ projected.value[kv_head])
