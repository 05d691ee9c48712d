"""All facts of a language model: from the tensors where they show it, else as stated, else assumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ropewalk.inspector.derive.evidence import SHOWN_BY, BlockEvidence, shown_by
from ropewalk.inspector.derive.families import family_of
from ropewalk.inspector.derive.heads import stated_heads
from ropewalk.inspector.derive.layers import Layer
from ropewalk.inspector.derive.observed import Shown
from ropewalk.inspector.derive.parameters import Parameters
from ropewalk.inspector.derive.places import Places
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.records import Checkpoint, Fact, Source

_UNKNOWN = Fact(None, "derived", "not stated")
_ATTENDING = ("full", "sliding", "chunked")
# Fields that the shapes of the blocks show.
_SHOWN = (
    "intermediate_size", "moe_intermediate_size", "shared_expert_intermediate_size", "num_experts",
    "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim",
)  # fmt: skip
_EXPERTS = (
    "num_experts", "num_experts_per_tok", "num_shared_experts", "moe_intermediate_size",
    "shared_expert_intermediate_size",
)  # fmt: skip
_FIELDS = {
    "num_attention_heads": "num_attention_heads",
    "num_key_value_heads": "num_key_value_heads",
    "head_dim": "head_dim_k",
    "v_head_dim": "head_dim_v",
}
# What is taken where nothing is stated and no tensor shows it.
_ASSUMED: dict[str, tuple[Source, str]] = {
    "num_attention_heads": ("derived", "the layers"),
    "num_key_value_heads": ("derived", "as many as query heads, where none are stated"),
    "head_dim": ("assumed", "hidden_size / num_attention_heads"),
    "v_head_dim": ("derived", "as wide as the keys"),
}
# Facts that the settings state and nothing else shows.
_STATED = (
    "max_position_embeddings", "sliding_window", "attention_chunk_size", "num_experts_per_tok",
    "num_shared_experts", "global_head_dim", "num_global_key_value_heads", "is_encoder_decoder",
    "max_source_positions", "index_head_dim", "num_kv_shared_layers", "mamba_ssm_dtype",
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


def head_facts(
    settings: Settings,
    layers: Sequence[Layer],
    evidence: Mapping[int, BlockEvidence],
    shown: Mapping[str, Shown],
    *,
    prefix: str,
) -> dict[str, Fact]:
    """Heads of the attention layers.

    Where layers differ a stated value that some layer has is kept, else the most frequent one.
    """
    attending = [layer.heads for layer in layers if layer.kind in _ATTENDING]
    facts: dict[str, Fact] = {}
    for name, roles in SHOWN_BY.items():
        values = [getattr(heads, _FIELDS[name]) for heads in attending]
        facts[name] = _head_fact(settings, name, values, shown_by(evidence, prefix, *roles))
    if not attending and any(layer.kind == "latent" for layer in layers):
        facts |= _latent_head_facts(settings, layers, shown)
    elif not attending and any(layer.kind == "recurrent" for layer in layers):
        none = Fact(0, "derived", "no attention layers")
        facts |= {"num_attention_heads": none, "num_key_value_heads": none, "head_dim": _UNKNOWN}
    queries, keys = facts["num_attention_heads"].value, facts["num_key_value_heads"].value
    are_numbers = isinstance(queries, int) and isinstance(keys, int) and queries > 0 and keys > 0
    ratio = queries // keys if are_numbers and queries % keys == 0 else None
    facts["gqa_ratio"] = Fact(ratio, "derived", "num_attention_heads / num_key_value_heads")
    return facts


def _head_fact(settings: Settings, name: str, values: list[int | None], tensor: str | None) -> Fact:
    known = [value for value in values if value is not None] or _encoder_values(settings, name)
    stated = settings.fact(name)
    if not known:
        return stated if stated is not None and not isinstance(stated.value, list) else _UNKNOWN
    value = Counter(known).most_common(1)[0][0]
    if stated is not None and isinstance(stated.value, int) and stated.value in known:
        value = stated.value
    if tensor is not None:
        return Fact(value, "tensor", tensor)
    if stated is not None and stated.value is not None:
        return Fact(value, stated.source, stated.detail)
    return Fact(value, *_ASSUMED[name])


def _encoder_values(settings: Settings, name: str) -> list[int]:
    """Heads of a model whose layers keep nothing, so that no layer record has them."""
    value = getattr(stated_heads(settings, 0, "none"), _FIELDS[name])
    return [value] if isinstance(value, int) and family_of(settings.model_type).encoder_only else []


def _latent_head_facts(
    settings: Settings, layers: Sequence[Layer], shown: Mapping[str, Shown]
) -> dict[str, Fact]:
    """Latent attention: heads as after up-projection; the cache holds one row for all of them."""
    first = next(layer.heads for layer in layers if layer.kind == "latent")
    nope, rope = (
        shown[name].usual if name in shown else settings.integer(name)
        for name in ("qk_nope_head_dim", "qk_rope_head_dim")
    )
    if nope is not None and rope is not None:
        size = Fact(nope + rope, "derived", "qk_nope_head_dim + qk_rope_head_dim")
    else:
        size = settings.fact("head_dim") or Fact(first.head_dim_k, "derived", "one row per token")
    queries = shown_or_stated(settings, shown, "num_attention_heads")
    keys = shown_or_stated(settings, shown, "num_key_value_heads")
    if settings.format == "gguf" or keys.value is None:  # GGUF counts the one row that is cached
        keys = Fact(queries.value, queries.source, "every head has keys and values of its own")
    return {
        "num_attention_heads": queries,
        "num_key_value_heads": keys,
        "head_dim": size,
        "v_head_dim": shown_or_stated(settings, shown, "v_head_dim"),
    }


def shown_facts(settings: Settings, shown: Mapping[str, Shown], *, has_tensors: bool) -> dict[str, Fact]:
    """Feed-forward widths, experts and ranks."""
    facts = {name: shown_or_stated(settings, shown, name) for name in _SHOWN}
    rank = facts["q_lora_rank"]
    if has_tensors and "q_lora_rank" not in shown and rank.value is not None:
        facts["q_lora_rank"] = Fact(None, "tensor", "the query projection is one matrix")
    if has_tensors and "num_experts" not in shown:
        facts |= _without_default_experts(settings)
    return facts


def _without_default_experts(settings: Settings) -> dict[str, Fact]:
    """A class that allows for experts assumes some; a checkpoint that stores none has none."""
    none = Fact(None, "tensor", "no expert is stored")
    stated = {name: settings.fact(name) for name in _EXPERTS}
    return {name: none for name, fact in stated.items() if fact is not None and fact.source == "default"}


def shown_or_stated(settings: Settings, shown: Mapping[str, Shown], name: str) -> Fact:
    """The stated value where a layer shows it, else what most layers show; as stated where none shows any."""
    stated, item = settings.fact(name), shown.get(name)
    if item is None:
        return stated or _UNKNOWN
    if stated is not None and stated.value in item.values.values():
        return Fact(stated.value, "tensor", item.tensor)
    return Fact(item.usual, "tensor", item.tensor)


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


def encoder_facts(settings: Settings, places: Places) -> dict[str, Fact]:
    """Blocks of the encoder half, whose keys and values the decoder keeps once per request."""
    if settings.value("is_encoder_decoder") is not True:
        return {}
    blocks = [rows for rows in places.towers.get("encoder", []) if len(rows) > 1]
    if blocks:
        return {"encoder_layers": Fact(len(blocks), "tensor", "blocks of the encoder")}
    stated = settings.fact("encoder_layers")
    if stated is not None:
        return {"encoder_layers": stated}
    count = settings.raw("num_layers")  # T5
    return {"encoder_layers": Fact(count if isinstance(count, int) else None, settings.source, "num_layers")}


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
