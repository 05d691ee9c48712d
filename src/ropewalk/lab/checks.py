"""Properties of attention that the lessons state, tried on the numbers of one layer."""

from __future__ import annotations

import torch

from ropewalk.lab.decoder import Decoder
from ropewalk.lab.eager import sdpa_attention
from ropewalk.lab.forward import Projected, rotate, turn_at
from ropewalk.lab.head import Head, head_of
from ropewalk.lab.records import Check

_SHIFTS = (1, 10, 100, 1000)
_TOLERANCE = 1e-5  # float32 keeps seven digits; relative to the largest number compared


def rows_sum_to_one(head: Head) -> Check:
    """Each query divides its attention among what it sees."""
    worst = float((head.weights.sum(-1) - 1).abs().max())
    return Check("rows_sum_to_one", worst, _TOLERANCE, worst <= _TOLERANCE, "largest distance from 1")


def later_token(kept: torch.Tensor, changed: torch.Tensor, *, what: str) -> Check:
    """``kept`` and ``changed`` are [tokens, numbers] of two prompts that differ in the last token alone."""
    difference = (kept - changed).abs()
    before, last = float(difference[:-1].max()), float(difference[-1].max())
    tolerance = _TOLERANCE * float(kept.abs().max())
    return Check(
        "later_token_changes_no_earlier",
        before,
        tolerance,
        before <= tolerance < last,
        f"{what} of the earlier tokens after another last token; the last one's own differ by {last:.3g}",
    )


def equal_distances(projected: Projected, decoder: Decoder, *, head: int) -> Check:
    """A query at m and a key at n score the same wherever they stand, as long as m - n is the same."""
    query = projected.query[head, -1:].double()
    key = projected.key[head // decoder.gqa_ratio, :1].double()
    tokens = projected.query.shape[1]
    shifts = torch.tensor((0, *_SHIFTS))

    def turned(vector: torch.Tensor, position: int) -> torch.Tensor:
        turn = turn_at(decoder, shifts + position, seq_len=tokens)
        return rotate(vector.expand(len(shifts), -1), turn)

    worst, largest = 0.0, 0.0
    for distance in range(tokens):
        scores = (turned(query, distance) * turned(key, 0)).sum(-1)
        worst = max(worst, float((scores - scores[0]).abs().max()))
        largest = max(largest, float(scores.abs().max()))
    tolerance = _TOLERANCE * max(largest, float(query.norm() * key.norm()))
    detail = f"distances 0 to {tokens - 1}, both moved on by {', '.join(map(str, _SHIFTS))} tokens"
    return Check("equal_distances_equal_scores", worst, tolerance, worst <= tolerance, detail)


def kv_head_serves(projected: Projected, decoder: Decoder, mask: torch.Tensor) -> Check:
    """sdpa groups the heads on its own; each of its outputs is that of KV head i // gqa_ratio and no other.

    ``value`` is the largest difference from that head; each other KV head has to be farther off.
    """
    outputs = sdpa_attention(
        projected.turned_query[None], projected.turned_key[None], projected.value[None], mask
    )[0]
    worst, nearest_other = 0.0, float("inf")
    for index in range(decoder.num_attention_heads):
        for kv_head in range(decoder.num_key_value_heads):
            output = head_of(projected, head=index, kv_head=kv_head, mask=mask).output
            distance = float((outputs[index] - output).abs().max())
            if kv_head == index // decoder.gqa_ratio:
                worst = max(worst, distance)
            else:
                nearest_other = min(nearest_other, distance)
    tolerance = _TOLERANCE * float(projected.value.abs().max())
    detail = f"{decoder.num_attention_heads} query heads, {decoder.num_key_value_heads} KV heads"
    if decoder.num_key_value_heads > 1:
        detail += f"; any other KV head is off by {nearest_other:.3g} or more"
    ok = worst <= tolerance < nearest_other
    return Check("kv_head_is_head_over_ratio", worst, tolerance, ok, detail)
