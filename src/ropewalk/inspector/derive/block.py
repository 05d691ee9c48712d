"""The typical block of a model: its tensors, how its parameters divide, what other KV heads would cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ropewalk.errors import UsageError
from ropewalk.inspector.derive.evidence import BlockEvidence
from ropewalk.inspector.derive.packing import Weight
from ropewalk.inspector.derive.roles import Part, part_of, role_of
from ropewalk.inspector.records import Block, BlockTensor, Inspection

_MIXERS: frozenset[Part] = frozenset({"attention", "cross", "recurrent"})


@dataclass(frozen=True, slots=True)
class KvHeadsWhatIf:
    """One block with another number of KV heads: its attention parameters, and the numbers (not bytes)
    that each token leaves in the cache of a layer."""

    num_key_value_heads: int
    attention_parameters: int
    values_per_token: int


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


def what_if_kv_heads(inspection: Inspection, num_key_value_heads: int) -> KvHeadsWhatIf | None:
    """The typical block as if it had this many KV heads; None where it has no keys and values of its own.

    Key and value projections grow in proportion; all else stays. Raises :class:`UsageError` unless the
    query heads divide evenly among the KV heads.
    """
    queries = inspection.value("num_attention_heads")
    shipped, size = inspection.value("num_key_value_heads"), inspection.value("head_dim")
    if inspection.block is None or not queries or not shipped or not size:
        return None
    if num_key_value_heads < 1 or queries % num_key_value_heads:
        raise UsageError(
            f"{queries} query heads do not divide among {num_key_value_heads} KV heads",
            where={"num_attention_heads": queries, "num_key_value_heads": num_key_value_heads},
        )
    keys_and_values = sum(
        tensor.parameters
        for tensor in inspection.block.tensors
        if role_of(tensor.name.removesuffix(".bias")) in ("k", "v")
    )
    if not keys_and_values:
        return None
    rest = inspection.block.attention_parameters - keys_and_values
    return KvHeadsWhatIf(
        num_key_value_heads=num_key_value_heads,
        attention_parameters=rest + keys_and_values * num_key_value_heads // shipped,
        values_per_token=2 * num_key_value_heads * size,
    )
