"""The findings that go with rope decisions: what a person has to know before serving one."""

from __future__ import annotations

from ropewalk.findings import Finding, Severity
from ropewalk.inspector.rope_blocks import Block
from ropewalk.planner.rope.emit import format_number
from ropewalk.planner.rope.frequencies import correction_range
from ropewalk.planner.rope.situation import Situation
from ropewalk.units import format_tokens


def _len(count: float | None) -> str:
    return "an unknown number of" if count is None else format_tokens(int(count))


def short_texts(factor: float) -> Finding:
    """YaRN is static in every engine: it turns the positions of short prompts too."""
    return Finding(
        "short_text_degradation",
        "warning",
        f"YaRN {format_number(factor)} applies to every prompt, short ones too, and changes their answers a "
        "little; serve without it where prompts stay within the trained length",
        {"factor": factor},
    )


def beyond_published(at: Situation, severity: Severity) -> Finding:
    """Longer than anything that the publisher describes."""
    if at.rule is None:
        known = f"{_len(at.native)} tokens were trained, and no publisher's rule is known beyond"
    else:
        known = f"the publisher describes up to {_len(at.supported)} tokens ({at.rule.source})"
    remedy = (
        "; --allow-unvalidated plans it anyway" if severity == "error" else ": measure before trusting it"
    )
    return Finding(
        "beyond_published_context",
        severity,
        f"{_len(at.target)} tokens: {known}{remedy}",
        {"context_len": at.target, "native_context": at.native, "supported_context": at.supported},
    )


def config_allows_more(at: Situation) -> Finding:
    """Between the trained length and ``max_position_embeddings``: Qwen3 from 32,768 to 40,960."""
    hint = ""
    if at.rule is not None and at.rule.yarn_original:
        hint = f"; the publisher's rule would be YaRN {format_number(at.target / at.rule.yarn_original)}"
    return Finding(
        "context_over_trained",
        "warning",
        f"the config allows {_len(at.limit)} tokens, but {_len(at.native)} were trained{hint}",
        {"context_len": at.target, "native_context": at.native, "max_position_embeddings": at.limit},
    )


def over_trained(at: Situation) -> Finding:
    """Positions that the weights have never seen, unscaled."""
    return Finding(
        "context_over_trained",
        "warning",
        f"{_len(at.target)} tokens without scaling, {_len(at.native)} were trained: answers about what lies "
        "beyond are likely to fail",
        {"context_len": at.target, "native_context": at.native},
    )


def only_in_header(at: Situation, factor: float | None) -> Finding:
    """An engine without rope flags, which serves no more than the file declares."""
    asked = f"{_len(at.target)} tokens" if factor is None else f"YaRN {format_number(factor)}"
    return Finding(
        "rope_only_in_header",
        "error",
        f"{asked}: {at.engine} takes no rope setting and serves at most the {_len(at.limit)} tokens that "
        "the file declares; write it into a copy: ropewalk bake MODEL.gguf --context N --output FILE",
        {"context_len": at.target, "max_position_embeddings": at.limit},
    )


def beyond_limit(at: Situation) -> Finding:
    """More than the engine serves of the checkpoint as shipped."""
    return Finding(
        "context_over_trained",
        "error",
        f"as shipped at most {_len(at.limit)} tokens are served, {_len(at.target)} are asked for",
        {"context_len": at.target, "max_position_embeddings": at.limit},
    )


def builtin_exhausted(at: Situation, reach: int | None) -> Finding:
    """A trained scaling is not stretched any further."""
    return Finding(
        "context_over_trained",
        "error",
        f"{at.rope_type} scaling is part of this checkpoint and reaches {_len(reach)} tokens; no second "
        f"scaling is added for {_len(at.target)} (to measure one: --arm unscaled)",
        {"context_len": at.target, "reach": reach, "rope_type": at.rope_type},
    )


def scaled_twice(at: Situation) -> Finding:
    """YaRN asked for on top of a shipped scaling."""
    return Finding(
        "context_scaled_twice",
        "error",
        f"the checkpoint carries {at.rope_type} scaling already; YaRN on top would replace what was trained",
        {"rope_type": at.rope_type, "factor": at.block.get("factor")},
    )


def only_by_rule(at: Situation, what: str) -> Finding:
    """Mixed kinds of layers: nobody but the publisher can say what scaling does."""
    return Finding(
        "rope_scaling_unsupported",
        "error",
        f"{what}: not scaled beyond {_len(at.native)} tokens without a publisher's rule, and none is known "
        "(yarn:F forces a factor, unscaled none, for measuring)",
        {"context_len": at.target, "native_context": at.native},
    )


def theta_unknown() -> Finding:
    """A YaRN block without its base: vLLM would take 10,000."""
    return Finding(
        "rope_theta_lost",
        "error",
        "rope_theta is unknown, and no block can be written without it: vLLM would use 10,000",
        {"field": "rope_theta"},
    )


def scaling_unsupported(positions: str) -> Finding:
    """A factor asked for where nothing rotates."""
    return Finding(
        "rope_scaling_unsupported",
        "error",
        f"there are no rotary positions to scale (position embedding: {positions})",
        {"position_embedding": positions},
    )


def learned_table(at: Situation) -> Finding:
    """Learned positions end where their table ends."""
    return Finding(
        "context_over_trained",
        "error",
        f"positions are learned: the table has {_len(at.config_len)} rows, {_len(at.target)} are asked for",
        {"context_len": at.target, "rows": at.config_len},
    )


def native_unknown(severity: Severity = "warning") -> Finding:
    """No length is stated anywhere."""
    return Finding(
        "native_context_unknown",
        severity,
        "no trained length is stated, so nothing can be said about this one; vLLM 0.33 would assume 2,048",
        {"field": "max_position_embeddings"},
    )


def factor_too_small(at: Situation, factor: float, original: int) -> Finding:
    """A forced factor that does not reach the target."""
    return Finding(
        "rope_table_too_short",
        "error",
        f"factor {format_number(factor)} over {_len(original)} reaches "
        f"{_len(original * factor)} tokens, {_len(at.target)} are asked for",
        {"factor": factor, "original_max_position_embeddings": original, "context_len": at.target},
    )


def yarn_rows(at: Situation) -> Finding:
    """vLLM builds original x factor rows under YaRN whatever length it is told."""
    return Finding(
        "rope_table_too_short",
        "error",
        f"under the shipped YaRN block vLLM builds {_len(at.scaled_len)} rows of positions; "
        f"{_len(at.target)} would read past them",
        {"rows": at.scaled_len, "context_len": at.target},
    )


def table_too_short(at: Situation) -> Finding | None:
    """Dynamic scaling exists in transformers alone: vLLM sizes its table without it, GGUF drops it."""
    if at.rope_type != "dynamic" or "alpha" in at.block or at.traits.dynamic_ntk == "per_prompt":
        return None
    if at.config_len is None or at.target <= at.config_len:
        return None
    if at.traits.dynamic_ntk == "table":
        message = f"vLLM accepts the length of dynamic scaling, but builds {_len(at.config_len)} rows only"
        return Finding(
            "rope_table_too_short", "error", message, {"rows": at.config_len, "context_len": at.target}
        )
    message = f"llama.cpp has no dynamic scaling: this model ends at {_len(at.config_len)} tokens there"
    return Finding(
        "rope_scaling_unsupported", "error", message, {"rope_type": "dynamic", "context_len": at.target}
    )


def on_shipped_scaling(at: Situation) -> list[Finding]:
    """What to know about a scaling that the checkpoint carries, at this length and on this engine."""
    findings = []
    original = at.block.get("original_max_position_embeddings")
    static = not at.traits.chooses_per_prompt
    if at.rope_type == "longrope" and static and original and at.target > original:
        findings.append(_long_list(at, original))
    if at.has_publishers_block and at.block.get("factor"):
        findings.append(short_texts(at.block["factor"]))
    whole = at.rope_type == "linear" and isinstance(at.block.get("factor"), int)
    if whole and not at.traits.takes_whole_linear_factor:
        findings.append(_whole_factor(at.block))
    unrounded = at.rope_type == "yarn" and at.block.get("truncate") is False
    if unrounded and not at.traits.obeys_truncate:
        findings.append(_truncated(at.block))
    return findings


def _long_list(at: Situation, original: float) -> Finding:
    return Finding(
        "short_text_degradation",
        "warning",
        f"for more than {_len(original)} tokens {at.engine} takes longrope's long list for every prompt, "
        "short ones too",
        {"original_max_position_embeddings": original, "context_len": at.target},
    )


def _whole_factor(block: Block) -> Finding:
    return Finding(
        "rope_scaling_unsupported",
        "warning",
        f"vLLM 0.33 fails on a linear factor that is a whole number; write {block['factor']}.0",
        {"field": "factor", "value": block["factor"]},
    )


def _truncated(block: Block) -> Finding:
    return Finding(
        "rope_frequencies_differ",
        "warning",
        "llama.cpp has no truncate: false; it rounds the range of YaRN's ramp to whole pairs, and so turns "
        "some pairs at other rates than the model was trained with",
        {"field": "truncate", "value": False},
    )


def on_added_yarn(at: Situation) -> list[Finding]:
    """Where an engine would take YaRN's range from another length than the one stated."""
    sections, scale = at.block.get("mrope_section"), at.traits.chunked_mrope_scale
    if scale == 1 or not sections or at.block.get("mrope_interleaved") or at.yarn_original is None:
        return []
    theta, dim = at.block["rope_theta"], 2 * sum(sections)
    stated, used = (correction_range(dim, theta, at.yarn_original * times) for times in (1, scale))
    return [
        Finding(
            "rope_frequencies_differ",
            "warning",
            f"for chunked M-RoPE vLLM takes YaRN's range over {scale} x {_len(at.yarn_original)} tokens: "
            f"pairs {used[0]:g} to {used[1]:g} instead of {stated[0]:g} to {stated[1]:g}",
            {"stated": list(stated), "used": list(used)},
        )
    ]
