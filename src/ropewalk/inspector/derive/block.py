"""The typical block of a model: its tensors, and how its parameters divide."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ropewalk.inspector.derive.evidence import BlockEvidence
from ropewalk.inspector.derive.packing import Weight
from ropewalk.inspector.derive.roles import Part, part_of
from ropewalk.inspector.records import Block, BlockTensor

_MIXERS: frozenset[Part] = frozenset({"attention", "cross", "recurrent"})


def typical_block(evidence: Mapping[int, BlockEvidence]) -> Block | None:
    """The most frequent block; of equally frequent ones the first. None without tensors."""
    if not evidence:
        return None
    counts = Counter(id(block) for block in evidence.values())
    block = max(evidence.values(), key=lambda block: counts[id(block)])
    if any(weight.total is None for weight in block.weights):
        return None
    return _block(block.weights)


def _block(weights: tuple[Weight, ...]) -> Block:
    tensors = tuple(
        BlockTensor(w.name, (w.count, *w.shape) if w.count > 1 else w.shape, w.total or 0) for w in weights
    )
    parts = [(part_of(tensor.name), tensor.parameters) for tensor in tensors]
    return Block(
        parameters=sum(tensor.parameters for tensor in tensors),
        attention_parameters=sum(count for part, count in parts if part in _MIXERS),
        feed_forward_parameters=sum(count for part, count in parts if part == "feed_forward"),
        tensors=tensors,
    )
