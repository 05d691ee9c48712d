"""What two engines would read differently in a rope block, or refuse: findings, nothing else."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from ropewalk.findings import Finding
from ropewalk.inspector.rope_blocks import Block, full_block, type_of

# transformers 5.24 raises KeyError without (modeling_rope_utils.py:868); longrope derives its own.
_NEEDS_FACTOR = frozenset({"yarn", "llama3", "linear", "ntk"})
_LIMIT = 2.0**63


def is_number(value: Any) -> bool:
    """A finite number of sane size; bool, NaN and infinity are none."""
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LIMIT < value < _LIMIT


def whole(value: Any) -> int | None:
    """A positive whole number, or None."""
    return int(value) if is_number(value) and value > 0 and value == int(value) else None


def check_factor(block: Block, max_len: int | None) -> Iterator[Finding]:
    """The factor is there, and says the same as ``max_position_embeddings`` over the original length."""
    original = block.get("original_max_position_embeddings")
    if block["rope_type"] in _NEEDS_FACTOR and "factor" not in block:
        yield _factor_missing(block["rope_type"], max_len / original if max_len and original else None)
    elif block["rope_type"] == "yarn" and max_len and original:
        factor, implicit = block["factor"], max_len / original
        if not math.isclose(implicit, factor, rel_tol=1e-6):
            yield _factor_mismatch(factor, implicit, original, max_len)


def check_multiplied(block: Block, max_len: int | None, original: Any) -> Iterator[Finding]:
    """A linear or dynamic factor multiplies the stated length; one that is raised already is scaled twice."""
    factor, start = block.get("factor"), block.get("original_max_position_embeddings") or original
    if block["rope_type"] not in ("linear", "dynamic") or factor is None or not factor > 1:
        return
    if max_len is None or not is_number(start) or start <= 0 or not math.isclose(max_len, start * factor):
        return
    yield Finding(
        "context_scaled_twice",
        "warning",
        f"max_position_embeddings {max_len} is {start:g} x {factor:g} already, and engines multiply it by "
        f"the {block['rope_type']} factor once more, to {int(max_len * factor)}; state {int(start)}",
        {"field": "max_position_embeddings", "value": max_len, "factor": factor, "original": start},
    )


def _factor_missing(rope_type: str, suggested: float | None) -> Finding:
    hint = f"; max_position_embeddings over the original length gives {suggested:g}" if suggested else ""
    return Finding(
        "rope_factor_missing",
        "error",
        f"rope type {rope_type} has no factor: transformers and vLLM refuse it{hint}",
        {"field": "factor", "suggested_factor": suggested},
    )


def _factor_mismatch(factor: float, implicit: float, original: float, max_len: int) -> Finding:
    scaled = int(original * factor)
    return Finding(
        "rope_factor_mismatch",
        "warning",
        f"factor {factor:g} over {original:g} reaches {scaled}, but max_position_embeddings is {max_len} "
        f"(ratio {implicit:g}): vLLM 0.30 and later serve {max_len}; set it to {scaled} for all engines",
        {
            "factor": factor,
            "implicit_factor": implicit,
            "scaled_context": scaled,
            "max_position_embeddings": max_len,
        },
    )


def check_longrope(block: Block, *, rotary_dim: int | None, config: Mapping[str, Any]) -> Iterator[Finding]:
    """One divisor per rotated pair in both lists, and no ``head_dim: null`` beside them."""
    if block["rope_type"] != "longrope" or rotary_dim is None:
        return
    expected = rotary_dim // 2
    for key in ("short_factor", "long_factor"):
        factors = block.get(key)
        got = len(factors) if isinstance(factors, list | tuple) else None
        if got != expected:
            yield Finding(
                "longrope_length",
                "error",
                f"{key} must hold {expected} numbers, one for each rotated pair; it holds {got or 'none'}",
                {"field": key, "expected": expected, "got": got},
            )
    if "head_dim" in config and config["head_dim"] is None:
        yield Finding(
            "head_dim_null",
            "warning",
            "head_dim is null: transformers 5.24 multiplies it and raises TypeError; leave the key out",
            {"field": "head_dim", "rotary_dim": rotary_dim},
        )


def check_outer(outer: Mapping[str, Any], block: Block) -> Iterator[Finding]:
    """A rope block beside a composite config's text config: neither vLLM nor transformers reads it."""
    for key in ("rope_scaling", "rope_parameters"):
        declared = outer.get(key)
        beside = full_block(declared) if isinstance(declared, Mapping) else {}
        if beside and (type_of(beside), beside.get("factor")) != (block["rope_type"], block.get("factor")):
            yield Finding(
                "rope_override_ignored",
                "warning",
                f"{key} at the top level says {type_of(beside)} and has no effect: engines read the text "
                f"config, which says {block['rope_type']}",
                {"field": key, "top_level": type_of(beside), "text_config": block["rope_type"]},
            )
