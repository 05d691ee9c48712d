"""What ``--hf-overrides`` makes of a config: which keys take effect, and what is lost on the way.

Rules of vllm 0.32.0, config/model.py ``_apply_dict_overrides`` and transformers_utils/config.py, each tried
with its ``ModelConfig``: a dict at the top level replaces what the config has, one inside a nested config
is merged key by key, and neither is standardised or validated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ropewalk.inspector.records import Fact, Inspection
from ropewalk.inspector.rope_blocks import Block, full_block
from ropewalk.planner.rope import versions

# The lengths that a config may state (transformers_utils/model_arch_config_convertor.py:374, 0.33): the
# smallest counts, and model_max_length alone where there is one.
LENGTH_KEYS = (
    "max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "model_max_length",
    "max_target_positions", "max_sequence_length", "max_seq_length", "seq_len",
)  # fmt: skip
ROPE_KEYS = ("rope_parameters", "rope_scaling")
_ALL_KEYS = frozenset({*LENGTH_KEYS, *ROPE_KEYS, "rope_theta"})
_NUMBERS = frozenset({"factor", "original_max_position_embeddings", "rope_theta"})
_NESTED_CONFIGS = frozenset({"text_config", "language_config", "llm_config", "thinker_config"})


@dataclass(frozen=True, slots=True)
class Overridden:
    """A checkpoint as vLLM sees it behind an override.

    ``block`` is the rope block that the override sets, after merging, None where it sets none;
    ``malformed`` are its values that should be numbers and are none. ``ignored`` are the keys that have no
    effect where they stand, ``stopping`` those that vLLM stops at.
    """

    inspection: Inspection
    block: Block | None
    malformed: dict[str, Any]
    ignored: dict[str, Any]
    stopping: dict[str, Any]


def apply_overrides(
    inspection: Inspection, overrides: Mapping[str, Any], *, version: str | None = None
) -> Overridden:
    """The inspection with the facts that an override changes: its rope block and its lengths."""
    nested = inspection.value("text_config_key")
    effective = language_part(overrides, nested)
    block = _block(inspection, effective, merged=nested is not None, version=version)
    malformed: dict[str, Any] = {}
    if block is not None:
        block = _numeric(block, malformed)
    lengths = {key: effective[key] for key in LENGTH_KEYS if is_length(effective.get(key))}
    return Overridden(
        inspection=_with_facts(inspection, block, lengths),
        block=block,
        malformed=malformed,
        ignored=dict(_ignored(overrides, nested, version)),
        stopping={} if nested else {key: overrides[key] for key in _NESTED_CONFIGS & overrides.keys()},
    )


def _numeric(block: Mapping[str, Any], malformed: dict[str, Any]) -> Block:
    """A block without the values that should be numbers and are none; those go to ``malformed``."""
    kept: Block = {}
    for key, value in block.items():
        if isinstance(value, Mapping):
            kept[key] = _numeric(value, malformed)
        elif key in _NUMBERS and not is_number(value):
            malformed[key] = value
        else:
            kept[key] = value
    return kept


def is_number(value: Any) -> bool:
    """A finite number, or nothing (null counts as not given)."""
    return value is None or (
        isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    )


def is_length(value: Any) -> bool:
    """A positive whole number."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def language_part(overrides: Mapping[str, Any], text_config_key: str | None) -> Mapping[str, Any]:
    """The part of an override that reaches the language model."""
    part: Any = overrides
    for key in text_config_key.split(".") if text_config_key else []:
        part = part.get(key) if isinstance(part, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def _block(
    inspection: Inspection, effective: Mapping[str, Any], *, merged: bool, version: str | None
) -> Block | None:
    """The rope block in force; the key that stands last wins."""
    key = next((key for key in reversed(list(effective)) if key in _rope_keys(version)), None)
    if key is None or not isinstance(effective[key], Mapping):
        return None
    given = dict(effective[key])
    shipped = inspection.value("rope_parameters") or {}
    if not versions.has(versions.ROPE_PARAMETERS_KEY, version):
        # The base stands beside the scaling there, and stays what it is.
        given.setdefault("rope_theta", effective.get("rope_theta", full_block(shipped).get("rope_theta")))
    if not merged:
        return given
    return {**full_block(shipped), **full_block(given)}


def _rope_keys(version: str | None) -> tuple[str, ...]:
    """Before vLLM 0.12 ``rope_scaling`` alone is read; since, both land in ``rope_parameters``."""
    return ROPE_KEYS if versions.has(versions.ROPE_PARAMETERS_KEY, version) else ("rope_scaling",)


def _ignored(
    overrides: Mapping[str, Any], text_config_key: str | None, version: str | None
) -> Iterator[tuple[str, Any]]:
    """Keys that are accepted and have no effect."""
    beside_block = versions.has(versions.ROPE_PARAMETERS_KEY, version)
    for key, value in overrides.items():
        useless = key == "max_model_len" or (key == "rope_theta" and beside_block)
        unread = key in ROPE_KEYS and key not in _rope_keys(version)
        if useless or unread or (text_config_key is not None and key in _ALL_KEYS):
            yield key, value


def _with_facts(inspection: Inspection, block: Block | None, lengths: Mapping[str, int]) -> Inspection:
    facts = dict(inspection.facts)
    if block is not None:
        facts["rope_parameters"] = Fact(block, "config", "--hf-overrides")
    if lengths:
        stated = {"max_position_embeddings": inspection.value("max_position_embeddings"), **lengths}
        known = {key: value for key, value in stated.items() if isinstance(value, int)}
        length = known.get("model_max_length", min(known.values()))
        facts["max_position_embeddings"] = Fact(length, "config", "--hf-overrides")
        facts.pop("model_max_length", None)
    return replace(inspection, facts=facts)
