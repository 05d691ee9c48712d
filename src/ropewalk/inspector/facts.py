"""All facts of a language model: from the tensors where they show it, else as stated, else assumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ropewalk.inspector.evidence import BlockEvidence
from ropewalk.inspector.hold import block_widths
from ropewalk.inspector.layers import Layer
from ropewalk.inspector.parameters import Parameters
from ropewalk.inspector.places import Places
from ropewalk.inspector.records import Checkpoint, Fact, Source
from ropewalk.inspector.settings import Settings

_UNKNOWN = Fact(None, "derived", "not stated")
_ATTENDING = ("full", "sliding", "chunked")
# Facts that the settings state and nothing else shows.
_STATED = (
    "max_position_embeddings", "sliding_window", "attention_chunk_size", "num_experts_per_tok",
    "num_shared_experts", "global_head_dim", "num_global_key_value_heads", "is_encoder_decoder",
    "encoder_layers", "max_source_positions", "index_head_dim", "num_kv_shared_layers",
)  # fmt: skip
_OPTIONAL = frozenset(_STATED) - {
    "max_position_embeddings", "sliding_window", "attention_chunk_size", "num_experts_per_tok",
    "num_shared_experts", "is_encoder_decoder",
}  # fmt: skip
_DTYPES = {"BF16": "bfloat16", "F16": "float16", "F32": "float32", "F64": "float64"}
_INT64_MAX = 2**63 - 1


def identity_facts(settings: Settings) -> dict[str, Fact]:
    """What the checkpoint calls itself."""
    source = settings.source
    key = "general.architecture" if source == "gguf" else "architectures"
    type_key = key if source == "gguf" else "model_type"
    return {
        "architecture": Fact(settings.architecture, source, key),
        "model_type": Fact(settings.outer.get("model_type") or settings.model_type, source, type_key),
        "text_config_key": Fact(settings.text_config_key, source, "where the language model is nested"),
    }


def stated_facts(settings: Settings) -> dict[str, Fact]:
    """What only the settings can say; optional facts appear where they are stated."""
    facts = {}
    for name in _STATED:
        fact = settings.fact(name)
        if fact is not None or name not in _OPTIONAL:
            facts[name] = fact or _UNKNOWN
    if settings.raw("use_sliding_window") is False:
        facts["sliding_window"] = Fact(None, "config", "use_sliding_window is false")
    if facts["is_encoder_decoder"].value is None:
        facts["is_encoder_decoder"] = Fact(False, "default", "not stated")
    return facts


def head_facts(settings: Settings, layers: Sequence[Layer], *, has_tensors: bool) -> dict[str, Fact]:
    """Heads of the attention layers.

    Where layers differ a stated value that some layer has is kept, else the most frequent one.
    """
    attending = [layer.heads for layer in layers if layer.kind in _ATTENDING]
    facts: dict[str, Fact] = {}
    for name, values in (
        ("num_attention_heads", [heads.num_attention_heads for heads in attending]),
        ("num_key_value_heads", [heads.num_key_value_heads for heads in attending]),
        ("head_dim", [heads.head_dim_k for heads in attending]),
        ("v_head_dim", [heads.head_dim_v for heads in attending]),
    ):
        facts[name] = _common(settings, name, values, has_tensors)
    latent = [layer.heads for layer in layers if layer.kind == "latent"]
    if latent and not attending:
        facts |= _latent_head_facts(settings, latent[0].num_attention_heads, latent[0].head_dim_k)
    if not attending and not latent and any(layer.kind == "recurrent" for layer in layers):
        none = Fact(0, "derived", "no attention layers")
        facts |= {"num_attention_heads": none, "num_key_value_heads": none, "head_dim": _UNKNOWN}
    queries, keys = facts["num_attention_heads"].value, facts["num_key_value_heads"].value
    ratio = queries // keys if queries and keys and queries % keys == 0 else None
    facts["gqa_ratio"] = Fact(ratio, "derived", "num_attention_heads / num_key_value_heads")
    return facts


def _common(settings: Settings, name: str, values: list[int | None], has_tensors: bool) -> Fact:
    known = [value for value in values if value is not None]
    stated = settings.fact(name)
    if not known:
        return stated if stated is not None and not isinstance(stated.value, list) else _UNKNOWN
    if stated is not None and isinstance(stated.value, int) and stated.value in known:
        return Fact(stated.value, "tensor", "projection shapes") if has_tensors else stated
    value = Counter(known).most_common(1)[0][0]
    if has_tensors:
        return Fact(value, "tensor", "projection shapes")
    if stated is not None and stated.value is not None:
        return Fact(value, stated.source, stated.detail)
    rule: tuple[Source, str] = ("derived", "as many as query heads, where none are stated")
    if name == "head_dim":
        rule = ("assumed", "hidden_size / num_attention_heads")
    elif name == "v_head_dim":
        rule = ("derived", "as wide as the keys")
    return Fact(value, *rule)


def _latent_head_facts(settings: Settings, queries: int | None, row: int | None) -> dict[str, Fact]:
    """Latent attention: heads as after up-projection; the cache holds one row for all of them."""
    nope, rope = settings.integer("qk_nope_head_dim"), settings.integer("qk_rope_head_dim")
    keys = settings.integer("num_key_value_heads")
    size = Fact(nope + rope, "derived", "qk_nope_head_dim + qk_rope_head_dim") if nope and rope else None
    return {
        "num_attention_heads": Fact(queries, settings.source, "num_attention_heads"),
        "num_key_value_heads": Fact(
            queries if settings.source == "gguf" else keys or queries,
            settings.source,
            "num_key_value_heads, after up-projection",
        ),
        "head_dim": size or Fact(row, "derived", "one row per token"),
        "v_head_dim": settings.fact("v_head_dim") or _UNKNOWN,
    }  # fmt: skip


def width_facts(
    settings: Settings, evidence: Mapping[int, BlockEvidence], hidden_size: int | None
) -> dict[str, Fact]:
    """Feed-forward widths, experts and ranks: the stated value where a layer shows it, else what is shown."""
    shown: dict[str, list[int]] = {}
    for block in {id(block): block for block in evidence.values()}.values():
        for name, value in block_widths(block, hidden_size).items():
            shown.setdefault(name, []).append(value)
    facts: dict[str, Fact] = {}
    names = ("intermediate_size", "moe_intermediate_size", "num_experts", "kv_lora_rank", "q_lora_rank",
             "qk_nope_head_dim", "qk_rope_head_dim")  # fmt: skip
    for name in names:
        stated, proven = settings.fact(name), shown.get(name)
        if not proven:
            facts[name] = _absent_in_tensors(name, stated, evidence) or stated or _UNKNOWN
        elif stated is not None and stated.value in proven:
            facts[name] = Fact(stated.value, "tensor", "weight shapes")
        elif stated is not None and stated.value is not None and name == "intermediate_size":
            facts[name] = stated
        else:
            facts[name] = Fact(proven[0], "tensor", "weight shapes")
    return facts


def _absent_in_tensors(name: str, stated: Fact | None, evidence: Mapping[int, BlockEvidence]) -> Fact | None:
    """A default of the class for a part that the tensors show not to be there."""
    if evidence and name == "q_lora_rank" and stated is not None and stated.source == "default":
        return Fact(None, "tensor", "the query projection is one matrix")
    return None


def count_facts(
    settings: Settings, parameters: Parameters | None, num_experts: int | None
) -> dict[str, Fact]:
    """Parameters that one token meets, and those of the parts beside the language model."""
    if parameters is None:
        return {"active_parameters": _UNKNOWN}
    chosen = settings.integer("num_experts_per_tok")
    active = parameters.active(num_experts, chosen)
    facts = {"active_parameters": Fact(active, "derived", "all but the experts that a token does not choose")}
    for tower, count in parameters.towers.items():
        facts[f"{tower}_parameters"] = Fact(count, "tensor", f"tensors of the {tower}")
    if parameters.mtp != 0:
        facts["mtp_parameters"] = Fact(parameters.mtp, "tensor", "tensors of the MTP heads")
    return facts


def dtype_fact(settings: Settings, places: Places) -> Fact:
    """The dtype that most bytes of plain weights are stored in, else the stated one."""
    sizes: Counter[str] = Counter()
    for rows in places.layers.values():
        for row in rows:
            sizes[row.dtype] += row.nbytes
    for dtype, _ in sizes.most_common():
        if dtype in _DTYPES and sizes[dtype] * 2 > sum(sizes.values()):
            return Fact(_DTYPES[dtype], "tensor", "most bytes of the blocks")
    return settings.fact("dtype") or _UNKNOWN


def tokenizer_limit(checkpoint: Checkpoint) -> Fact:
    """``model_max_length`` of the tokenizer: advisory, and None where it is a number for "no limit"."""
    content = checkpoint.relatives.get("tokenizer_config.json")
    value: Any = content.get("model_max_length") if isinstance(content, Mapping) else None
    is_length = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _INT64_MAX
    length = int(value) if is_length else None
    if length is not None and length >= 10**12:  # int(1e30) and its kin mean "none"
        length = None
    return Fact(length, "config", "tokenizer_config.json: model_max_length")
