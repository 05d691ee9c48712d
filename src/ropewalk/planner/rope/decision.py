"""Whether and how to scale the positions of a checkpoint for a target length.

Trained, allowed by the config and described by the publisher are told apart; a scaling is added only to a
plain checkpoint, with the smallest factor, and never on top of one that it carries already.
"""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.engines import EngineName
from ropewalk.errors import UsageError
from ropewalk.findings import Finding, by_severity
from ropewalk.inspector.records import Inspection
from ropewalk.inspector.rope_blocks import Block
from ropewalk.planner.records import PlanRequest, RopeDecision, RopeDecisionKind
from ropewalk.planner.rope import notes, versions
from ropewalk.planner.rope.emit import (
    Emission,
    emit_length,
    emit_yarn,
    smallest_factor,
    yarn_block,
)
from ropewalk.planner.rope.frequencies import attention_factor
from ropewalk.planner.rope.situation import Situation, read_situation
from ropewalk.units import format_tokens

_OURS = "ropewalk: no rule is known; standard YaRN (arXiv 2309.00071) over the trained length"


@dataclass(frozen=True, slots=True)
class RopeAdvice:
    """A decision and what it was made from.

    ``override_context_len`` is set where the checkpoint's own limit must be lifted beside it
    (``--override-kv`` of llama-server; vLLM's override carries it already). ``block`` is the canonical
    block of the full-attention layers under this decision, empty without rotary positions.
    """

    decision: RopeDecision
    findings: tuple[Finding, ...]
    native_context: int | None
    supported_context: int | None
    override_context_len: int | None
    block: Block


def decide_rope(
    inspection: Inspection,
    *,
    context_len: int,
    engine: EngineName,
    engine_version: str | None = None,
    arm: str = "auto",
    allow_unvalidated: bool = False,
) -> RopeAdvice:
    """Decide for ``context_len`` tokens per sequence, prompt and answer together.

    ``arm``: ``auto`` follows the publisher's rule, or else offers YaRN with a warning; ``shipped`` changes
    nothing; ``yarn:F`` forces a factor; ``unscaled`` lifts the limit and scales nothing. Beyond what a
    publisher describes the answer is "refuse" unless ``allow_unvalidated``. Raises :class:`UsageError` for
    an arm that is none of these.
    """
    situation = read_situation(
        inspection,
        context_len=context_len,
        engine=engine,
        engine_version=engine_version,
        allow_unvalidated=allow_unvalidated,
    )
    return _decide(situation, arm)


def decide_for(inspection: Inspection, request: PlanRequest, *, context_len: int | None = None) -> RopeAdvice:
    """The decision for a request's engine, version and arm, for its length or another; raises as
    :func:`decide_rope` does."""
    return decide_rope(
        inspection,
        context_len=request.context_len if context_len is None else context_len,
        engine=request.engine,
        engine_version=request.engine_version,
        arm=request.arm,
        allow_unvalidated=request.allow_unvalidated,
    )


def _decide(at: Situation, arm: str) -> RopeAdvice:
    factor = _forced_factor(arm)
    if at.traits.words == "header" and (factor is not None or at.target > (at.limit or at.target)):
        return _refuse(at, notes.only_in_header(at, factor))
    if arm == "shipped" and at.limit is not None and at.target > at.limit:
        return _refuse(at, notes.beyond_limit(at))
    if at.positions not in ("rope", "nope_mixed"):
        if factor is not None:
            return _refuse(at, notes.scaling_unsupported(at.positions))
        return _learned(at) if at.positions == "learned" else _unrotated(at)
    if factor is not None:
        return _forced(at, factor)
    if arm == "unscaled":
        return _unscaled(at)
    return _as_shipped(at) if arm == "shipped" else _auto(at)


def _forced_factor(arm: str) -> float | None:
    """The factor of ``yarn:F``, None for the other arms."""
    if arm in ("auto", "shipped", "unscaled"):
        return None
    kind, _, text = arm.partition(":")
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if kind != "yarn" or not 1.0 <= factor <= 1024.0:
        raise UsageError(
            f"{arm!r} is not a valid arm; expected auto, shipped, unscaled or yarn:F, F from 1 to 1024",
            where={"arm": arm},
        )
    return factor


# --- rotary positions -------------------------------------------------------------------------------------


def _auto(at: Situation) -> RopeAdvice:
    if at.native is None or at.target <= at.native:
        return _as_shipped(at)
    if at.is_builtin:
        return _beyond_builtin(at)
    if at.limit is not None and at.target <= at.limit:
        return _as_shipped(at)
    has_rule = at.rule is not None and at.rule.yarn_original is not None
    if not has_rule and at.positions == "nope_mixed":
        return _refuse(at, notes.only_by_rule(at, "layers without rotation beside rotated ones"))
    if not has_rule and at.is_nested:
        return _refuse(at, notes.only_by_rule(at, "layer types that rotate differently"))
    if at.rule is not None and at.target > (at.supported or 0) and not at.allow_unvalidated:
        return _refuse(at, notes.beyond_published(at, "error"))
    original = at.yarn_original or at.native
    return _scale(at, smallest_factor(at.target, original), original)


def _as_shipped(at: Situation) -> RopeAdvice:
    """The checkpoint's own rotation, its length limit lifted where it is below what was trained."""
    refusal = notes.table_too_short(at)
    if refusal is not None:
        return _refuse(at, refusal)
    findings = notes.on_shipped_scaling(at)
    if at.native is None:
        findings.append(notes.native_unknown())
        return _keep(at, "the checkpoint states no trained length", findings)
    if at.target > at.native and not at.is_builtin:
        findings.append(notes.config_allows_more(at))
        reason = f"within the config's own limit; {format_tokens(at.native)} tokens were trained"
    elif at.is_builtin:
        reason = f"{at.rope_type} scaling is part of the checkpoint"
    else:
        reason = f"trained for {format_tokens(at.native)} tokens: no scaling is needed"
    return _keep(at, reason, findings)


def _beyond_builtin(at: Situation) -> RopeAdvice:
    """Past the trained length of a checkpoint that carries a scaling: only as far as that scaling reaches."""
    reach = at.scaled_len or 0
    described = at.has_publishers_block and at.target <= (at.supported or 0)
    if at.target > reach:
        return _refuse(at, notes.builtin_exhausted(at, max(reach, at.native or 0)))
    if not described and not at.allow_unvalidated:
        return _refuse(at, notes.beyond_published(at, "error"))
    findings = notes.on_shipped_scaling(at)
    if not described:
        findings.append(notes.beyond_published(at, "warning"))
    return _keep(at, "the YaRN block of the checkpoint reaches this length", findings, lift_to=at.scaled_len)


def _scale(at: Situation, factor: float, original: int) -> RopeAdvice:
    """YaRN added to a plain checkpoint."""
    if at.block.get("rope_theta") is None:
        return _refuse(at, notes.theta_unknown())
    block, reach = yarn_block(at.block, factor=factor, original=original), int(original * factor)
    emission = emit_yarn(
        at.parameters,
        block,
        max_len=reach,
        target_len=at.target,
        text_config_key=at.text_config_key,
        new_keys=at.has(versions.ROPE_PARAMETERS_KEY),
    )
    described = at.rule is not None and at.rule.yarn_original is not None and at.target <= (at.supported or 0)
    findings = [notes.short_texts(factor), *notes.on_added_yarn(at)]
    if not described and at.target > (at.supported or 0):
        findings.append(notes.beyond_published(at, "warning"))
    whose = "the publisher's rule" if described else "no rule is published for it"
    return _advice(
        at,
        "scale",
        reason=f"{format_tokens(reach)} / {format_tokens(original)}, {whose}",
        source=at.rule.source if at.rule is not None and described else _OURS,
        block=block,
        emission=emission,
        findings=findings,
        override=None if at.has(versions.YARN_LIFTS_TRAINED_CONTEXT) else at.target,
    )


def _forced(at: Situation, factor: float) -> RopeAdvice:
    """``yarn:F``: asked for by name, so only what cannot work is refused."""
    original = at.yarn_original
    if at.is_builtin:
        return _refuse(at, notes.scaled_twice(at))
    if original is None:
        return _refuse(at, notes.native_unknown("error"))
    if int(original * factor) < at.target:
        return _refuse(at, notes.factor_too_small(at, factor, original))
    return _scale(at, factor, original)


def _unscaled(at: Situation) -> RopeAdvice:
    """The limit lifted, positions as they are: to measure what that does."""
    if at.traits.yarn_table_from_block and at.scaled_len is not None and at.target > at.scaled_len:
        return _refuse(at, notes.yarn_rows(at))
    refusal = notes.table_too_short(at)
    if refusal is not None:
        return _refuse(at, refusal)
    findings = notes.on_shipped_scaling(at)
    if at.native is not None and at.target > at.native:
        findings.append(notes.over_trained(at))
    return _keep(at, "no scaling is added, as asked for", findings)


# --- other positions --------------------------------------------------------------------------------------


def _learned(at: Situation) -> RopeAdvice:
    if at.config_len is not None and at.target > at.config_len:
        return _refuse(at, notes.learned_table(at))
    return _keep(at, "learned positions: there is nothing to scale", [])


def _unrotated(at: Situation) -> RopeAdvice:
    """ALiBi, relative buckets, or none at all: any length works, none beyond the trained one is promised."""
    findings = [notes.over_trained(at)] if at.native is not None and at.target > at.native else []
    return _keep(at, f"no rotary positions ({at.positions}): there is nothing to scale", findings)


# --- records ----------------------------------------------------------------------------------------------


def _keep(at: Situation, reason: str, findings: list[Finding], *, lift_to: int | None = None) -> RopeAdvice:
    """Rotation as shipped; the length limit is lifted where the target is beyond it."""
    lifted = at.limit is not None and at.target > at.limit
    length = lift_to or at.target
    emission = Emission()
    if lifted:
        emission = emit_length(length, context_key=at.context_key, text_config_key=at.text_config_key)
    return _advice(
        at,
        "builtin" if at.is_builtin else "none",
        reason=reason,
        source=at.rule.source if at.rule is not None else "the checkpoint",
        block=at.block,
        emission=emission,
        findings=findings,
        override=length if lifted and at.traits.lifts_by_override else None,
    )


def _refuse(at: Situation, finding: Finding) -> RopeAdvice:
    source = at.rule.source if at.rule is not None else "the checkpoint"
    return _advice(at, "refuse", reason=finding.message, source=source, findings=[finding])


def _advice(
    at: Situation,
    kind: RopeDecisionKind,
    *,
    reason: str,
    source: str,
    findings: list[Finding],
    block: Block | None = None,
    emission: Emission | None = None,
    override: int | None = None,
) -> RopeAdvice:
    block, emission = at.block if block is None else block, emission or Emission()
    said = block if kind in ("scale", "builtin") else {}
    factor, original = said.get("factor"), said.get("original_max_position_embeddings")
    decision = RopeDecision(
        decision=kind,
        type=said.get("rope_type"),
        factor=None if factor is None else float(factor),
        original_max_position_embeddings=None if original is None else int(original),
        attention_factor=attention_factor(said, max_position_embeddings=at.config_len, engine=at.engine)
        if said
        else None,
        reason=reason,
        source=source,
        transformers_v4=emission.transformers_v4,
        transformers_v5=emission.transformers_v5,
        vllm_hf_overrides=emission.vllm_hf_overrides,
        llama_server_flags=emission.llama_server_flags,
    )
    return RopeAdvice(decision, by_severity(findings), at.native, at.supported, override, block)
