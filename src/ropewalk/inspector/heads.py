"""Attention heads of a block: what its tensors prove, where they are silent what the settings state."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ropewalk.inspector.evidence import BlockEvidence


@dataclass(frozen=True, slots=True)
class Heads:
    """Heads of one attention layer; None where unknown."""

    num_attention_heads: int | None = None
    num_key_value_heads: int | None = None
    head_dim_k: int | None = None
    head_dim_v: int | None = None


def prove_heads(evidence: BlockEvidence, stated: Heads, hidden_size: int | None) -> Heads:
    """The heads that the tensors of a block allow, as close to the stated ones as they are.

    A projection only shows the product of heads and head size. The size comes from a norm per head
    where there is one, else from the settings; the numbers of heads then follow from the shapes.
    """
    keys, values = evidence.out("k", hidden_size), evidence.out("v", hidden_size)
    fused = evidence.out("qkv", hidden_size)
    size = _head_dim(evidence, stated, keys)
    if size is None:
        return stated
    query_heads = _query_heads(evidence, stated, size, hidden_size)
    if keys is not None:
        if keys % size:
            return replace(stated, num_attention_heads=query_heads)
        kv_heads = keys // size
        value_size = values // kv_heads if values and kv_heads and values % kv_heads == 0 else size
        return Heads(query_heads, kv_heads, size, value_size)
    if fused is not None and query_heads and fused % size == 0:
        rest = fused // size - query_heads
        if rest > 0 and rest % 2 == 0:
            return Heads(query_heads, rest // 2, size, size)
    return replace(stated, num_attention_heads=query_heads, head_dim_k=size)


def _head_dim(evidence: BlockEvidence, stated: Heads, keys: int | None) -> int | None:
    """A norm shorter than the projection is one per head; as long as it, it is one for all heads."""
    norm = evidence.width("k_norm") or evidence.width("q_norm")
    if norm and keys and keys % norm == 0 and keys != norm:
        return norm
    if norm and keys == norm and stated.num_key_value_heads == 1:
        return norm
    return stated.head_dim_k


def _query_heads(evidence: BlockEvidence, stated: Heads, size: int, hidden_size: int | None) -> int | None:
    """From the output projection, whose inputs carry no gate; else from the query projection."""
    inputs, queries = evidence.inputs("o", hidden_size), evidence.out("q", hidden_size)
    value_size = stated.head_dim_v or size
    if queries and queries % size == 0 and (inputs is None or queries != 2 * inputs):
        return queries // size
    if inputs and inputs % value_size == 0:
        return inputs // value_size
    return stated.num_attention_heads
