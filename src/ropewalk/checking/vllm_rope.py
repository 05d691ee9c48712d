"""Findings about the rope override of a vLLM command."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ropewalk.checking.diagnostics import Diagnostic, Repair, diagnostic, remove_flags, set_flag
from ropewalk.checking.vllm_repair import ROPE_FLAGS, override_text
from ropewalk.checking.vllm_settings import VllmServed, VllmSettings
from ropewalk.findings import Severity
from ropewalk.inspector.published import rule_for
from ropewalk.inspector.records import Inspection
from ropewalk.inspector.rope_blocks import KNOWN_TYPES, Block, full_block, type_of
from ropewalk.units import format_tokens as tokens

_FLAG = "--hf-overrides"
_ORIGINAL = "original_max_position_embeddings"
_NEEDED = {
    "yarn": ("factor", "original_max_position_embeddings"),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "ntk": ("factor",),
    "llama3": ("factor", "original_max_position_embeddings", "low_freq_factor", "high_freq_factor"),
}


def rope_diagnostics(
    settings: VllmSettings, served: VllmServed, inspection: Inspection, repair: Repair
) -> Iterator[Diagnostic]:
    """What an override loses, and what vLLM does with the rest of it; ``repair`` is one that works."""
    yield from _without_effect(settings, served, inspection, repair)
    block = served.overridden.block
    if block is None:
        return
    yield from _unusable(block, served.overridden.malformed, repair)
    if type_of(block) in ("linear", "ntk") and isinstance(block.get("factor"), int):
        yield _whole_factor(settings, block["factor"])
    if block.get("rope_theta") is None and inspection.value("rope_theta") is not None:
        yield _theta_lost(inspection, repair)
    twice = _scaled_twice(block, inspection, repair)
    if twice:
        yield twice
    else:
        yield from _against_publisher(served, inspection, repair)


def _without_effect(
    settings: VllmSettings, served: VllmServed, inspection: Inspection, repair: Repair
) -> Iterator[Diagnostic]:
    """Keys that are accepted and change nothing, and those that vLLM stops at."""
    nested = inspection.value("text_config_key")
    for key, value in served.overridden.ignored.items():
        if key == "max_model_len":
            yield _length_key(settings, repair, value)
            continue
        reason = "this version does not read it"
        if nested is not None:
            reason = f"the language model's config is {nested}, and the top level of a composite is not read"
        elif key == "rope_theta":
            reason = "the base is read inside rope_parameters"
        yield _ignored(f"{key} in --hf-overrides has no effect: {reason}", key, repair)
    for key in served.overridden.stopping:
        yield _ignored(
            f"{key} in --hf-overrides: this config has no inner one, and vLLM stops at it", key, repair
        )


def _ignored(message: str, key: str, repair: Repair, fix: str | None = None) -> Diagnostic:
    return diagnostic(
        "rope_override_ignored", "error", message, fix=fix or _fix(repair), repair=repair, flag=_FLAG, key=key
    )


def _length_key(settings: VllmSettings, repair: Repair, value: Any) -> Diagnostic:
    """``{"max_model_len": N}``, as vLLM's own offline example has it."""
    length = set_flag("--max-model-len", value)
    if settings.max_model_len is None:
        repair |= length
    return _ignored(
        "max_model_len in --hf-overrides has no effect: it is no key of the config",
        "max_model_len",
        repair,
        fix=length.text,
    )


def _unusable(block: Block, malformed: Mapping[str, Any], repair: Repair) -> Iterator[Diagnostic]:
    """Blocks at which vLLM stops, the first of them only when it has read the weights."""
    kind = type_of(block)
    problems = []
    if "rope_type" not in block:
        problems.append("rope_type is missing (overrides are not standardised, KeyError)")
    if kind not in KNOWN_TYPES:
        problems.append(f"rope_type {kind!r} is unknown")
    for key, value in malformed.items():
        problems.append(f"{key} {value!r} is no number")
    if problems:
        yield diagnostic(
            "rope_scaling_unsupported",
            "error",
            f"vLLM stops at this rope block: {'; '.join(problems)}",
            fix=_fix(repair),
            repair=repair,
            flag=_FLAG,
            block=block,
        )
    missing = [key for key in _NEEDED.get(kind, ()) if block.get(key) is None and key not in malformed]
    if missing:
        yield diagnostic(
            "rope_original_missing"
            if "original_max_position_embeddings" in missing
            else "rope_scaling_unsupported",
            "error",
            f"{kind} needs {' and '.join(missing)}: vLLM stops when it has loaded the weights (KeyError)",
            fix=_fix(repair),
            repair=repair,
            flag=_FLAG,
            missing=missing,
        )


def _whole_factor(settings: VllmSettings, factor: int) -> Diagnostic:
    override = json.dumps(_with_floats(settings.meant), separators=(",", ":"))
    return diagnostic(
        "rope_scaling_unsupported",
        "error",
        f"vLLM stops at a factor that is a whole number ({factor}): TypeError",
        fix=f"write {factor}.0",
        repair=set_flag(_FLAG, override) | remove_flags(*ROPE_FLAGS),
        factor=factor,
    )


def _with_floats(value: Any) -> Any:
    """The override with every factor as a float."""
    if not isinstance(value, Mapping):
        return value
    return {
        key: float(item) if key == "factor" and isinstance(item, int) else _with_floats(item)
        for key, item in value.items()
    }


def _theta_lost(inspection: Inspection, repair: Repair) -> Diagnostic:
    theta = inspection.value("rope_theta")
    return diagnostic(
        "rope_theta_lost",
        "error",
        "the override replaces the whole rope block and carries no rope_theta: vLLM takes 10,000 instead of "
        f"the checkpoint's {theta:,.0f}, without a word",
        fix=_fix(repair),
        repair=repair,
        flag=_FLAG,
        rope_theta=theta,
        used=10000,
    )


def _scaled_twice(block: Block, inspection: Inspection, repair: Repair) -> Diagnostic | None:
    shipped = full_block(inspection.value("rope_parameters"))
    if type_of(shipped) == "default":
        return None
    same = all(block.get(key) == shipped.get(key) for key in ("factor", "original_max_position_embeddings"))
    if type_of(block) == type_of(shipped) and same:
        return None
    return diagnostic(
        "context_scaled_twice",
        "error",
        f"the checkpoint carries {type_of(shipped)} scaling, which the override replaces by "
        f"{type_of(block)}: the weights were trained with the one that is lost",
        fix="remove the rope keys from --hf-overrides",
        repair=repair,
        flag=_FLAG,
        shipped=shipped,
        block=block,
    )


def _against_publisher(served: VllmServed, inspection: Inspection, repair: Repair) -> Iterator[Diagnostic]:
    """YaRN that counts from another length than the publisher, or reaches further than what is served."""
    block, rule = served.block, rule_for(inspection.facts)
    original, factor = block.get("original_max_position_embeddings"), block.get("factor")
    if type_of(block) != "yarn" or not original or not factor:
        return
    if rule is not None and rule.yarn_original not in (None, original):
        yield diagnostic(
            "rope_factor_mismatch",
            "error",
            f"YaRN counts from {tokens(original)} tokens, the publisher from "
            f"{tokens(rule.yarn_original or 0)} ({rule.source})",
            fix=_fix(repair),
            repair=repair,
            flag=_FLAG,
            used=original,
            published=rule.yarn_original,
        )
    reach = int(original * factor)
    if served.served_len < served.derived_len or reach <= served.served_len:
        return
    severity: Severity = "warning"
    yield diagnostic(
        "rope_factor_mismatch",
        severity,
        f"the block reaches {tokens(reach)} tokens, vLLM serves {tokens(served.served_len)}: since 0.30 "
        "max_position_embeddings is what counts, and the override does not raise it",
        fix=_fix(repair),
        repair=repair,
        flag=_FLAG,
        reach=reach,
        derived_max_len=served.derived_len,
    )


def _fix(repair: Repair) -> str:
    return override_text(repair) or "remove the rope keys"
