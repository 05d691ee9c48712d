"""All facts of a language model: from the tensors where they show it, else as stated, else assumed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ropewalk.inspector.derive.evidence import OBSERVED_IN, BlockEvidence, observed_in
from ropewalk.inspector.derive.families import is_encoder
from ropewalk.inspector.derive.heads import declared_heads, is_packing_factor
from ropewalk.inspector.derive.observed import Observed
from ropewalk.inspector.derive.parameters import Parameters
from ropewalk.inspector.derive.places import Places
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.layer_kinds import AnyLayer, LatentAttention
from ropewalk.inspector.records import Checkpoint, Fact, Source

_UNKNOWN = Fact(None, "derived", "not stated")
_ATTENDING = ("full", "sliding", "chunked")
# Fields that the shapes of the blocks show.
_OBSERVED = (
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
_DECLARED = (
    "max_position_embeddings", "sliding_window", "attention_chunk_size", "num_experts_per_tok",
    "num_shared_experts", "global_head_dim", "num_global_key_value_heads", "is_encoder_decoder",
    "max_source_positions", "index_head_dim", "num_kv_shared_layers", "mamba_ssm_dtype",
    "linear_key_head_dim", "first_k_dense_replace", "per_layer_input_size", "mamba_chunk_size",
)  # fmt: skip
_OPTIONAL = frozenset(_DECLARED) - {
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


def declared_facts(settings: Settings) -> dict[str, Fact]:
    """What only the settings can say; optional facts appear where they are stated."""
    facts = {}
    for name in _DECLARED:
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
    layers: Sequence[AnyLayer],
    evidence: Mapping[int, BlockEvidence],
    observed: Mapping[str, Observed],
    *,
    prefix: str,
) -> dict[str, Fact]:
    """Heads of the attention layers.

    Where layers differ a stated value that some layer has is kept, else the most frequent one.
    """
    attending = [layer for layer in layers if layer.kind in _ATTENDING]
    facts: dict[str, Fact] = {}
    for name, roles in OBSERVED_IN.items():
        values = [getattr(layer, _FIELDS[name]) for layer in attending]
        facts[name] = _head_fact(settings, name, values, observed_in(evidence, prefix, *roles))
    if not attending and any(layer.kind == "latent" for layer in layers):
        facts |= _latent_head_facts(settings, layers, observed)
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
    declared = settings.fact(name)
    if not known:
        return declared if declared is not None and not isinstance(declared.value, list) else _UNKNOWN
    value = Counter(known).most_common(1)[0][0]
    if declared is not None and isinstance(declared.value, int) and declared.value in known:
        value = declared.value
    if tensor is not None:
        return Fact(value, "tensor", tensor)
    if declared is not None and declared.value is not None:
        return Fact(value, declared.source, declared.detail)
    return Fact(value, *_ASSUMED[name])


def _encoder_values(settings: Settings, name: str) -> list[int]:
    """Heads of a model whose layers keep nothing, so that no layer record has them."""
    value = getattr(declared_heads(settings, 0, "none"), _FIELDS[name])
    return [value] if isinstance(value, int) and is_encoder(settings) else []


def _latent_head_facts(
    settings: Settings, layers: Sequence[AnyLayer], observed: Mapping[str, Observed]
) -> dict[str, Fact]:
    """Latent attention: heads as after up-projection; the cache holds one row for all of them."""
    first = next(layer for layer in layers if isinstance(layer, LatentAttention))
    nope, rope = (
        observed[name].usual if name in observed else settings.integer(name)
        for name in ("qk_nope_head_dim", "qk_rope_head_dim")
    )
    if nope is not None and rope is not None:
        size = Fact(nope + rope, "derived", "qk_nope_head_dim + qk_rope_head_dim")
    else:
        size = settings.fact("head_dim") or Fact(first.head_dim_k, "derived", "one row per token")
    queries = observed_or_declared(settings, observed, "num_attention_heads")
    keys = observed_or_declared(settings, observed, "num_key_value_heads")
    if settings.format == "gguf" or keys.value is None:  # GGUF counts the one row that is cached
        keys = Fact(queries.value, queries.source, "every head has keys and values of its own")
    return {
        "num_attention_heads": queries,
        "num_key_value_heads": keys,
        "head_dim": size,
        "v_head_dim": observed_or_declared(settings, observed, "v_head_dim"),
    }


def observed_facts(
    settings: Settings, observed: Mapping[str, Observed], *, has_tensors: bool
) -> dict[str, Fact]:
    """Feed-forward widths, experts and ranks."""
    facts = {name: observed_or_declared(settings, observed, name) for name in _OBSERVED}
    rank = facts["q_lora_rank"]
    if has_tensors and "q_lora_rank" not in observed and rank.value is not None:
        facts["q_lora_rank"] = Fact(None, "tensor", "the query projection is one matrix")
    if has_tensors and "num_experts" not in observed:
        facts |= _without_default_experts(settings)
    return facts


def _without_default_experts(settings: Settings) -> dict[str, Fact]:
    """A class that allows for experts assumes some; a checkpoint that stores none has none."""
    none = Fact(None, "tensor", "no expert is stored")
    declared = {name: settings.fact(name) for name in _EXPERTS}
    return {name: none for name, fact in declared.items() if fact is not None and fact.source == "default"}


def observed_or_declared(settings: Settings, observed: Mapping[str, Observed], name: str) -> Fact:
    """The stated value where a layer shows it, else what most layers show; as stated where none shows any."""
    declared, item = settings.fact(name), observed.get(name)
    if item is None:
        return declared or _UNKNOWN
    if declared is not None and declared.value in item.values.values():
        return Fact(declared.value, "tensor", item.tensor)
    if declared is not None and item.assumed and is_packing_factor(declared.value, item.usual):
        return declared
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
    declared = settings.fact("encoder_layers")
    if declared is not None:
        return {"encoder_layers": declared}
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


def finite(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """The facts without NaN and infinity, which a file may hold and a JSON record cannot."""
    return {name: replace(fact, value=_finite(fact.value)) for name, fact in facts.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list) else value
