"""Attention heads of a layer: what the settings state, and what its tensors prove."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ropewalk.inspector.derive.evidence import BlockEvidence
from ropewalk.inspector.derive.patterns import LayerWord
from ropewalk.inspector.derive.settings import Settings


@dataclass(frozen=True, slots=True)
class Heads:
    """Heads of one attention layer; None where unknown."""

    num_attention_heads: int | None = None
    num_key_value_heads: int | None = None
    head_dim_k: int | None = None
    head_dim_v: int | None = None

    @property
    def sizes(self) -> tuple[int | None, int | None, int | None, int | None]:
        """All four, in this order."""
        return self.num_attention_heads, self.num_key_value_heads, self.head_dim_k, self.head_dim_v


def declared_heads(settings: Settings, layer: int, word: LayerWord) -> Heads:
    """What the settings say about one layer.

    Without a head size it is hidden_size / heads; without KV heads there are as many as query heads.
    Sliding layers (MiMo, GGUF) or full ones (Gemma 4) may have sizes of their own.
    """
    queries = settings.at_layer("num_attention_heads", layer)
    keys = settings.at_layer("num_key_value_heads", layer)
    size, value_size = settings.at_layer("head_dim", layer), settings.at_layer("v_head_dim", layer)
    windowed = word in ("sliding", "hybrid_sliding")
    if windowed:
        queries = settings.integer("swa_num_attention_heads") or queries
        keys = settings.integer("swa_num_key_value_heads") or keys
        size = settings.integer("swa_head_dim") or size
        value_size = settings.integer("swa_v_head_dim") or value_size
    elif word == "full":
        whole = settings.integer("global_head_dim")
        size, value_size = whole or size, value_size if whole is None else whole
        keys = _global_keys(settings) or keys
    keys = _grouped_keys(settings.raw("block_configs"), layer, queries) or keys
    own = settings.by_word.get("sliding_attention" if windowed else "full_attention", {})
    queries, keys = own.get("num_attention_heads", queries), own.get("num_key_value_heads", keys)
    size, value_size = own.get("head_dim", size), own.get("v_head_dim", value_size)
    hidden = settings.integer("hidden_size")
    if size is None and hidden and queries:
        size = hidden // queries
    return Heads(queries, queries if keys is None else keys, size, value_size or size)


def _global_keys(settings: Settings) -> int | None:
    """Gemma 4 counts the KV heads of full layers apart where keys serve as values (modeling_gemma4.py)."""
    apart = settings.raw("attention_k_eq_v") is not False
    return settings.integer("num_global_key_value_heads") if apart else None


def _grouped_keys(blocks: Any, layer: int, queries: int | None) -> int | None:
    """Nemotron-NAS states per block how many query heads share a KV head."""
    if not isinstance(blocks, list) or layer >= len(blocks) or not queries:
        return None
    block = blocks[layer]
    attention = block.get("attention") if isinstance(block, Mapping) else None
    group = attention.get("n_heads_in_group") if isinstance(attention, Mapping) else None
    return queries // group if isinstance(group, int) and group > 0 else None


_FACTORS = frozenset({2, 4, 8, 16})


def is_packing_factor(said: Any, proven: Any) -> bool:
    """Whether two values differ by as much as a packing that was not understood would make them."""
    if not (isinstance(said, int) and isinstance(proven, int) and said > 0 and proven > 0):
        return False
    factor, rest = divmod(max(said, proven), min(said, proven))
    return rest == 0 and factor in _FACTORS


def is_doubtful(evidence: BlockEvidence, declared: Heads, proven: Heads) -> bool:
    """Whether packed projections contradict the stated heads by a factor that a packing may have made."""
    is_assumed = any(
        evidence.roles[role].assumed for role in ("q", "k", "v", "qkv", "o") if role in evidence.roles
    ) or ("o" in evidence.roles and evidence.roles["o"].inputs_assumed)
    return is_assumed and any(map(is_packing_factor, declared.sizes, proven.sizes))


def prove_heads(evidence: BlockEvidence, declared: Heads, hidden_size: int | None) -> Heads:
    """The heads that the tensors of a block allow, as close to the stated ones as they are.

    A projection shows only the product of heads and head size. The size comes from a norm per head
    where there is one, else from the settings; the numbers of heads then follow from the shapes.
    """
    keys, values = evidence.out("k", hidden_size), evidence.out("v", hidden_size)
    size = _head_dim(evidence, declared, keys, hidden_size)
    if not size:
        return declared
    queries = _query_heads(evidence, declared, size, hidden_size)
    if keys:
        if keys % size:
            return replace(declared, num_attention_heads=queries)
        count = keys // size
        return Heads(queries, count, size, values // count if values and values % count == 0 else size)
    fused = evidence.out("qkv", hidden_size)
    if fused is not None and queries and fused % size == 0:
        rest = fused // size - queries
        if rest > 0 and rest % 2 == 0:
            return Heads(queries, rest // 2, size, size)
    return replace(declared, num_attention_heads=queries, head_dim_k=size)


def _head_dim(
    evidence: BlockEvidence, declared: Heads, keys: int | None, hidden_size: int | None
) -> int | None:
    """A norm shorter than the keys is one per head.

    As long as they, it is one for all heads where that of the queries has another width.

    Learned sinks are one per query head. Where both stated numbers of heads fit the shapes with one other
    head size, it is the size that is stated wrongly.
    """
    of_queries, of_keys = evidence.width("q_norm"), evidence.width("k_norm")
    norm = of_keys or of_queries
    queries = evidence.out("q", hidden_size)
    over_all = keys == norm and of_queries != of_keys  # MiniMax-M2: one norm over all heads
    if norm and keys and keys % norm == 0 and not over_all and (keys != norm or queries != norm):
        return norm
    sinks = evidence.width("sinks")
    if sinks and queries and queries % sinks == 0:
        return queries // sinks
    size, count, shared = declared.head_dim_k, declared.num_attention_heads, declared.num_key_value_heads
    if queries and keys and count and shared and queries == evidence.inputs("o", hidden_size):
        fits = queries % count == 0 and queries // count * shared == keys
        return queries // count if fits else size
    return size


def _query_heads(evidence: BlockEvidence, declared: Heads, size: int, hidden_size: int | None) -> int | None:
    """From the query projection; from the output projection where the queries carry a gate as wide."""
    queries, inputs = evidence.out("q", hidden_size), evidence.inputs("o", hidden_size)
    value_size = declared.head_dim_v or size
    if queries and queries % size == 0 and (inputs is None or queries != 2 * inputs):
        return queries // size
    if inputs and inputs % value_size == 0:
        return inputs // value_size
    return declared.num_attention_heads


@dataclass(frozen=True, slots=True)
class LatentSizes:
    """Sizes of latent attention: ranks of what is cached, heads as they are after up-projection."""

    kv_lora_rank: int | None = None
    qk_rope_head_dim: int | None = None
    qk_nope_head_dim: int | None = None
    v_head_dim: int | None = None
    num_attention_heads: int | None = None

    @property
    def row(self) -> int | None:
        """Numbers cached per token: the latent and the rotated part of the key."""
        if self.kv_lora_rank is None or self.qk_rope_head_dim is None:
            return None
        return self.kv_lora_rank + self.qk_rope_head_dim


def declared_latent(settings: Settings) -> LatentSizes:
    """What the settings say about latent attention."""
    return LatentSizes(**{item.name: settings.integer(item.name) for item in fields(LatentSizes)})


def prove_latent(evidence: BlockEvidence, declared: LatentSizes, hidden_size: int | None) -> LatentSizes:
    """The sizes that the tensors of a block fix; those that they leave open as stated.

    With H heads, q_b has H (nope + rope) rows, kv_b H (nope + v), and the output projection H v columns;
    GGUF files store the two halves of kv_b apart, one matrix per head.
    """
    row, rank = evidence.out("kv_a", hidden_size), evidence.width("kv_a_norm")
    rank = rank or declared.kv_lora_rank
    rope = row - rank if row and rank and row >= rank else declared.qk_rope_head_dim
    proven = replace(declared, kv_lora_rank=rank, qk_rope_head_dim=rope)
    keys, values = evidence.roles.get("k_b"), evidence.roles.get("v_b")
    if keys is not None and values is not None and len(keys.shape) == len(values.shape) == 3:
        return replace(
            proven,
            num_attention_heads=keys.shape[0],
            qk_nope_head_dim=keys.shape[2],
            v_head_dim=values.shape[1],
        )
    queries, both = _rows(evidence, "q_b", "q"), _rows(evidence, "kv_b")
    outputs = evidence.inputs("o", hidden_size)
    if not (queries and both and outputs and rope) or (queries - both + outputs) % rope:
        return proven
    heads = (queries - both + outputs) // rope
    if heads < 1 or (both - outputs) % heads or outputs % heads:
        return proven
    return replace(
        proven,
        num_attention_heads=heads,
        qk_nope_head_dim=(both - outputs) // heads,
        v_head_dim=outputs // heads,
    )


def _rows(evidence: BlockEvidence, *roles: str) -> int | None:
    weight = next((evidence.roles[role] for role in roles if role in evidence.roles), None)
    return weight.shape[0] if weight is not None and len(weight.shape) == 2 else None
