"""The override that serves what a vLLM command asks for, in place of one that does not."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any

from ropewalk.checking.diagnostics import Repair, remove_flags, set_flag
from ropewalk.checking.lengths import Reach
from ropewalk.checking.overrides import LENGTH_KEYS, ROPE_KEYS, is_number, language_part
from ropewalk.checking.vllm_settings import VllmSettings
from ropewalk.inspector.published import rule_for
from ropewalk.inspector.records import Inspection
from ropewalk.inspector.rope_blocks import Block, full_block, type_of
from ropewalk.planner.rope import versions
from ropewalk.planner.rope.emit import emit_yarn, smallest_factor, yarn_block

ROPE_FLAGS = ("--rope-scaling", "--rope-theta")  # of older versions
_FLAG = "--hf-overrides"
_ORIGINAL = "original_max_position_embeddings"


def rope_repair(
    settings: VllmSettings, inspection: Inspection, reached: Reach, *, version: str | None
) -> Repair:
    """The override that serves the length asked for: the user's YaRN with what it lacks, else the planner's.

    Keys that have nothing to do with lengths and rotation are kept, the rope flags of older versions go.
    Where no override reaches the length, ``--max-model-len`` is lowered to what can be served.
    """
    asked = settings.max_model_len if (settings.max_model_len or 0) > 0 else None
    repair = remove_flags(*ROPE_FLAGS)
    block = _completed(settings, inspection, asked)
    emitted: Mapping[str, Any] = {}
    if block is not None:
        length = int(block["original_max_position_embeddings"] * block["factor"])
        emission = emit_yarn(
            inspection.value("rope_parameters") or {},
            block,
            max_len=length,
            target_len=asked or length,
            text_config_key=inspection.value("text_config_key"),
            new_keys=versions.has(versions.ROPE_PARAMETERS_KEY, version),
        )
        emitted = emission.vllm_hf_overrides or {}
    elif asked is not None:
        emitted = reached.advice.decision.vllm_hf_overrides or {}
        refused = reached.advice.decision.decision == "refuse"
        length = inspection.value("max_position_embeddings") or asked if refused else reached.length
        if length < asked:
            repair |= set_flag("--max-model-len", length)
    overrides = _merged(_without_rope(settings.meant, inspection), emitted)
    if not overrides:
        return repair | remove_flags(_FLAG)
    return repair | set_flag(_FLAG, json.dumps(overrides, separators=(",", ":")))


def _completed(settings: VllmSettings, inspection: Inspection, target: int | None) -> Block | None:
    """The YaRN block that was meant, complete; None where none was, or the checkpoint has its own."""
    nested = inspection.value("text_config_key")
    given = _given_block(settings.meant, nested)
    shipped = full_block(inspection.value("rope_parameters"))
    if given is None or type_of(given) != "yarn" or type_of(shipped) != "default":
        return None
    rule = rule_for(inspection.facts)
    published = rule.yarn_original if rule else None
    original = published or _number(given, _ORIGINAL) or inspection.value("native_context")
    if not original or shipped.get("rope_theta") is None:
        return None
    length = _number(language_part(settings.meant, nested), "max_position_embeddings") or 0
    factor = _number(given, "factor") or length / original  # null is the ratio of the lengths
    if target is not None and int(original * factor) < target:
        factor = smallest_factor(target, int(original))
    if factor < 1:
        return None
    stated = {key: value for key, value in given.items() if key != "type"}
    plain = {**shipped, **stated, "rope_theta": shipped["rope_theta"]}
    return yarn_block(plain, factor=factor, original=int(original))


def _number(values: Mapping[str, Any], key: str) -> float | None:
    """A positive number; None for anything else."""
    value = values.get(key)
    return value if value is not None and is_number(value) and value > 0 else None


def _given_block(overrides: Mapping[str, Any], text_config_key: str | None) -> Mapping[str, Any] | None:
    """The rope block that was meant, wherever it stands."""
    for part in (language_part(overrides, text_config_key), overrides):
        for key in reversed(ROPE_KEYS):
            block = part.get(key)
            if isinstance(block, Mapping):
                return full_block(block)
    return None


def _without_rope(overrides: Mapping[str, Any], inspection: Inspection) -> dict[str, Any]:
    """The override without lengths and rotation, at the top level and where the language model is."""
    dropped = {*LENGTH_KEYS, *ROPE_KEYS, "rope_theta", "max_model_len"}
    kept = {key: value for key, value in overrides.items() if key not in dropped}
    nested = inspection.value("text_config_key")
    if nested is None:
        return {key: value for key, value in kept.items() if not key.endswith("_config")}
    head = nested.partition(".")[0]
    if isinstance(kept.get(head), Mapping):
        inner = {key: value for key, value in kept[head].items() if key not in dropped}
        kept = {
            **{key: value for key, value in kept.items() if key != head},
            **({head: inner} if inner else {}),
        }
    return kept


def _merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Both, nested objects together."""
    merged = dict(one)
    for key, value in other.items():
        have = merged.get(key)
        if isinstance(have, Mapping) and isinstance(value, Mapping):
            merged[key] = _merged(have, value)
        else:
            merged[key] = value
    return merged


def override_text(repair: Repair) -> str | None:
    """The override that a repair writes, quoted for a shell; None where there is none left."""
    words = repair.edits.get(_FLAG)
    return shlex.join(words) if words else None
