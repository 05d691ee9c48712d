"""Findings about the length of a llama-server command: the trained context, and flags that stretch it."""

from __future__ import annotations

from collections.abc import Iterator

from ropewalk.checking.diagnostics import NO_REPAIR, Diagnostic, Repair, diagnostic, remove_flags, set_flag
from ropewalk.checking.lengths import Reach, beyond_published, over_trained, reach, short_texts
from ropewalk.checking.llama_settings import LlamaServed, LlamaSettings, context_key
from ropewalk.findings import Severity
from ropewalk.inspector.published import rule_for
from ropewalk.inspector.records import Inspection
from ropewalk.planner.records import RopeDecision
from ropewalk.planner.rope.decision import RopeAdvice
from ropewalk.units import format_tokens as tokens

_SCALES = ("--rope-scale", "--rope-freq-scale")


def length_diagnostics(
    settings: LlamaSettings, served: LlamaServed, inspection: Inspection, *, version: str | None
) -> Iterator[Diagnostic]:
    """The context against what the model was trained for, and the rope flags that are to stretch it."""
    reached = reach(inspection, context_len=served.wanted_len, engine="llama-server", version=version)
    repair = _repair(settings, served, inspection, reached)
    scaled_twice = _scaled_twice(served, inspection)
    if scaled_twice:
        yield scaled_twice
    yield from _inactive(settings, served, repair)
    original = _original(settings, served, inspection)
    if original:
        yield original
    if served.trained_len is not None and served.trained_len < served.wanted_len:
        yield _capped(served, repair)
    else:
        yield from _beyond(settings, served, reached.advice)


def _repair(settings: LlamaSettings, served: LlamaServed, inspection: Inspection, reached: Reach) -> Repair:
    """The flags with which the wanted length is served, or the length nearest to it that can be."""
    repair = NO_REPAIR
    refused = reached.advice.decision.decision == "refuse"
    length = served.context_length if refused and served.context_length else reached.length
    if length != served.wanted_len:
        total = length * (1 if settings.unified else settings.num_slots)
        repair |= set_flag("--ctx-size", total, short="-c")
    repair |= _rope_repair(settings, reached.advice.decision)
    if reached.advice.override_context_len:
        length_key = {context_key(inspection): f"int:{reached.advice.override_context_len}"}
        overrides = {**settings.kv_overrides, **length_key}
        repair |= set_flag("--override-kv", ",".join(f"{key}={typed}" for key, typed in overrides.items()))
    return repair


def _rope_repair(settings: LlamaSettings, decision: RopeDecision) -> Repair:
    """The rope flags that the planner decides on, in place of those that stand there."""
    repair = NO_REPAIR
    if settings.scale is not None or settings.scaling is not None:
        repair = remove_flags("--rope-scaling", *_SCALES, "--yarn-orig-ctx")
    flags = decision.llama_server_flags
    for name, value in zip(flags[::2], flags[1::2], strict=True):
        repair |= set_flag(name, value)
    return repair


def _capped(served: LlamaServed, repair: Repair) -> Diagnostic:
    """More was reserved, or asked for, than a slot may use."""
    slots, trained = served.slots, served.trained_len or 0
    dead = slots.n_ctx - min(slots.n_ctx, slots.num_slots * trained)
    severity: Severity = "error" if dead or not slots.unified else "warning"
    unusable = f"; cells for {tokens(dead)} tokens are reserved that no request can use" if dead else ""
    return diagnostic(
        "slot_context_capped",
        severity,
        f"{tokens(served.wanted_len)} tokens are asked for, every slot is capped at the trained context, "
        f"{tokens(trained)}{unusable}",
        fix=repair.text,
        repair=repair if severity == "error" else None,
        flag="--ctx-size",
        context_len=served.wanted_len,
        trained_context=trained,
        dead_cells=dead,
    )


def _scaled_twice(served: LlamaServed, inspection: Inspection) -> Diagnostic | None:
    """Flags on top of a scaling that the checkpoint carries."""
    shipped = (inspection.value("rope_scaling") or {}).get("rope_type", "default")
    if shipped in ("default", "none") or served.effective.freq_scale == served.shipped.freq_scale:
        return None
    replaced = served.shipped.type in ("yarn", "linear") and shipped == served.shipped.type
    what = (
        f"--rope-scale replaces the checkpoint's own {shipped} factor {served.shipped.factor:g}"
        if replaced
        else f"the flags scale positions that the checkpoint scales already ({shipped}): both apply"
    )
    return diagnostic(
        "context_scaled_twice",
        "error",
        what,
        fix="remove the rope flags: the scaling is part of the checkpoint",
        repair=remove_flags("--rope-scaling", *_SCALES, "--yarn-orig-ctx"),
        flag="--rope-scale",
        rope_type=shipped,
        factor=served.effective.factor,
    )


def _inactive(settings: LlamaSettings, served: LlamaServed, repair: Repair) -> Iterator[Diagnostic]:
    """Rope flags that change nothing."""
    if settings.scaling == "none" and settings.scale is not None:
        yield diagnostic(
            "rope_scaling_inactive",
            "warning",
            "--rope-scaling none turns the scale off that another flag sets",
            fix="--rope-scaling yarn, or neither of the two",
            flag="--rope-scaling",
        )
    if settings.scaling == "yarn" and served.effective.factor == 1.0:
        yield diagnostic(
            "rope_scaling_inactive",
            "error",
            "--rope-scaling yarn without --rope-scale scales by 1: nothing is stretched",
            fix=repair.writes or "remove --rope-scaling",
            repair=remove_flags("--rope-scaling") | repair,
            flag="--rope-scaling",
        )
    if settings.original is not None and served.effective.type != "yarn":
        yield diagnostic(
            "rope_scaling_inactive",
            "warning",
            f"--yarn-orig-ctx is read by YaRN only, and the scaling is {served.effective.type}",
            fix="--rope-scaling yarn, or no --yarn-orig-ctx",
            flag="--yarn-orig-ctx",
        )
    mixes = settings.ext_factor
    if mixes is None:
        mixes = 1.0 if served.effective.type == "yarn" else 0.0
    if settings.attn_factor is not None and mixes > 0:
        yield diagnostic(
            "rope_scaling_inactive",
            "warning",
            "--yarn-attn-factor is computed anew wherever YaRN mixes rates (src/llama-context.cpp:179)",
            fix="remove --yarn-attn-factor",
            flag="--yarn-attn-factor",
            value=settings.attn_factor,
        )


def _original(settings: LlamaSettings, served: LlamaServed, inspection: Inspection) -> Diagnostic | None:
    """YaRN counted from another length than the publisher's."""
    rule = rule_for(inspection.facts)
    effective = served.effective
    if rule is None or rule.yarn_original is None or effective.type != "yarn" or effective.factor == 1.0:
        return None
    used = effective.original or served.context_length
    if used == rule.yarn_original:
        return None
    missing = settings.original is None
    return diagnostic(
        "rope_original_missing" if missing else "rope_factor_mismatch",
        "error",
        f"YaRN counts from {tokens(used or 0)} tokens"
        + (", as --yarn-orig-ctx is not given" if missing else "")
        + f"; the publisher counts from {tokens(rule.yarn_original)} ({rule.source}): other pairs are scaled",
        repair=set_flag("--yarn-orig-ctx", rule.yarn_original),
        used=used,
        published=rule.yarn_original,
    )


def _beyond(settings: LlamaSettings, served: LlamaServed, advice: RopeAdvice) -> Iterator[Diagnostic]:
    """A length that is served, and what is known about it."""
    length = served.slot_len
    scaled = served.effective.factor != 1.0 or served.shipped.factor != 1.0
    better = _rope_repair(settings, advice.decision).writes
    if not scaled:
        yield from over_trained(
            length, advice, flag="--ctx-size", fix=better or f"-c {advice.native_context}"
        )
    yield from beyond_published(length, advice, flag="--ctx-size")
    if settings.scale is None or served.effective.factor == 1.0:
        return
    if served.effective.type == "yarn":
        yield short_texts(served.effective.factor, advice, length=served.wanted_len, flag="--rope-scale")
        return
    yield diagnostic(
        "short_text_degradation",
        "warning",
        f"linear scaling slows every position by {served.effective.factor:g}: the weights were not trained "
        "so, and the cap of the slots is not raised by it",
        fix=better or "remove the rope flags",
        flag="--rope-scale",
        factor=served.effective.factor,
    )
