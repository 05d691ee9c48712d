"""A config's or a GGUF's words about rotary positions, in any of their generations, to one spelling.

The canonical form is that of transformers 5: a flat block with ``rope_type`` and ``rope_theta``, or one
such block per layer type. Nothing is decided here; what two engines would read differently is a finding.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ropewalk.findings import Finding, Severity
from ropewalk.inspector.derive.families import family_of
from ropewalk.inspector.derive.rope_checks import (
    check_factor,
    check_longrope,
    check_multiplied,
    check_outer,
    is_number,
    whole,
)
from ropewalk.inspector.records import Fact, Source
from ropewalk.inspector.rope_blocks import (
    KNOWN_TYPES,
    Block,
    Blocks,
    canonical_type,
    full_block,
    is_nested,
    scaling_of,
    type_of,
)

# transformers 5.24 fills a missing original length of these with max_position_embeddings
# (modeling_rope_utils.py:806); vLLM 0.33 does the same.
_FROM_ORIGINAL = frozenset({"yarn", "longrope", "llama3"})
_POSITIVE = frozenset({"factor", "partial_rotary_factor", "alpha"})
_NUMBERS = _POSITIVE | {
    "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "low_freq_factor",
    "high_freq_factor", "short_mscale", "long_mscale", "mixed_b",
}  # fmt: skip

_MIXIN_THETA = 10_000.0  # of the configuration classes of transformers 5.24
_THETA_KEYS = ("rope_theta", "global_rope_theta", "rotary_emb_base")
_SLIDING_THETA_KEYS = ("rope_local_base_freq", "local_rope_theta", "swa_rope_theta")
_PARTIAL_KEYS = ("partial_rotary_factor", "rotary_pct")

_GGUF_KEYS = {
    "factor": "factor", "original_context_length": "original_max_position_embeddings",
    "attn_factor": "attention_factor", "yarn_attn_factor": "attention_factor", "yarn_beta_fast": "beta_fast",
    "yarn_beta_slow": "beta_slow", "yarn_log_multiplier": "yarn_log_multiplier",
}  # fmt: skip
_SCALED_ONLY = frozenset({*_GGUF_KEYS.values(), "mscale", "mscale_all_dim"})


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary positions of a checkpoint in one spelling.

    ``parameters`` is the flat block of the full-attention layers (``rope_type``, ``rope_theta`` and what
    the type needs), empty where the model has no rotary positions; ``per_layer_type`` one block per layer
    type where they differ, None for a type without rotation. ``facts`` are ``rope_theta``,
    ``rope_scaling``, ``rope_parameters``, ``partial_rotary_factor`` and ``rotary_dim`` with their sources.
    """

    parameters: Block
    per_layer_type: Blocks | None
    facts: dict[str, Fact]
    findings: tuple[Finding, ...] = ()


def standardise_rope(
    config: Mapping[str, Any],
    *,
    head_dim: int | None,
    outer: Mapping[str, Any] | None = None,
    rotary: bool = True,
) -> RopeConfig:
    """The text config's rope keys in canonical form.

    ``head_dim`` is the width that rotation is a share of: that of the full-attention layers, or
    ``qk_rope_head_dim`` for latent attention. ``outer`` is the top level of a composite config: what it
    says about rope beside the text config is ignored by the engines, and told. ``rotary`` False (learned
    positions, ALiBi, none) gives an empty record. Priorities are those of transformers 5.24
    (modeling_rope_utils.py:775 and :806); vLLM 0.33 agrees unless a finding says otherwise.
    """
    if not rotary:
        return _no_rope()
    reader = _Reader(config)
    raw = reader.declared_block()
    nested = reader.nested(raw)
    flat = full_block(nested) if nested is not None else reader.flat(raw)
    theta = reader.theta_fact(full_block(raw), flat)
    partial = reader.partial_fact(flat, head_dim)
    rotary_dim = reader.rotary_dim(flat, partial.value, head_dim)
    reader.findings += check_factor(flat, None if reader.original_assumed else reader.max_len)
    reader.findings += check_multiplied(flat, reader.max_len, config.get("original_max_position_embeddings"))
    reader.findings += check_longrope(flat, rotary_dim=rotary_dim.value, config=config)
    if outer is not None and outer is not config:
        reader.findings += check_outer(outer, flat)
    return _record(flat, nested, theta, partial, rotary_dim, tuple(reader.findings))


def rope_from_gguf(
    metadata: Mapping[str, Any],
    *,
    head_dim: int | None,
    has_rope_freqs: bool = False,
    has_long_factors: bool = False,
    rotary: bool = True,
) -> RopeConfig:
    """The same record from GGUF metadata (``general.architecture`` and ``<arch>.rope.*``).

    ``has_rope_freqs`` says that ``rope_freqs.weight`` is stored: a llama3 or (Gemma 4) proportional scaling
    baked into divisors, of which the metadata says nothing, so that its factor stays unknown.
    ``has_long_factors`` says that ``rope_factors_long.weight`` is (longrope). Defaults are those of
    llama.cpp b11434 (llama-model.cpp:1408-1432).
    """
    if not rotary:
        return _no_rope()
    arch = str(metadata.get("general.architecture") or "")
    said = {
        key.removeprefix(f"{arch}."): value for key, value in metadata.items() if key.startswith(f"{arch}.")
    }
    flat = _gguf_block(said, arch, has_rope_freqs=has_rope_freqs, has_long_factors=has_long_factors)
    declared = _is_above(said.get("rope.freq_base"), 1)
    theta = Fact(
        flat["rope_theta"], "gguf" if declared else "default", "rope.freq_base" if declared else "llama.cpp"
    )
    width = whole(said.get("rope.dimension_count"))
    rotary_dim = Fact(
        width or head_dim, "gguf" if width else "derived", "rope.dimension_count" if width else "head_dim"
    )
    partial = Fact(
        width / head_dim if width and head_dim else None, "derived", "rope.dimension_count / head_dim"
    )
    is_yarn = flat["rope_type"] == "yarn"  # what is baked into tensors has no factor to check
    findings = tuple(check_factor(flat, whole(said.get("context_length")))) if is_yarn else ()
    return _record(flat, _gguf_layers(said, arch, flat), theta, partial, rotary_dim, findings, source="gguf")


def _gguf_block(said: Mapping[str, Any], arch: str, *, has_rope_freqs: bool, has_long_factors: bool) -> Block:
    theta = said.get("rope.freq_base")
    block: Block = {"rope_type": "default", "rope_theta": theta if _is_above(theta, 1) else _MIXIN_THETA}
    block |= {
        name: value
        for key, name in _GGUF_KEYS.items()
        if _is_above(value := said.get(f"rope.scaling.{key}"), 0)
    }
    declared = canonical_type(said.get("rope.scaling.type") or "linear")
    if has_long_factors:
        block["rope_type"] = "longrope"
    elif has_rope_freqs:
        block["rope_type"] = "proportional" if arch.startswith("gemma4") else "llama3"
    elif declared != "none" and block.get("factor", 1.0) != 1.0:
        block["rope_type"] = declared
    if (log_mul := block.pop("yarn_log_multiplier", None)) is not None:
        # llama-context.cpp:177-200: DeepSeek's multiplier is stored x 0.1, and stands for both mscales.
        scale = log_mul / 0.1 if arch == "deepseek2" else log_mul
        block |= {"mscale": scale if arch == "deepseek2" else 1.0, "mscale_all_dim": scale}
    sections = said.get("rope.dimension_sections")
    if isinstance(sections, list | tuple) and any(map(whole, sections)):
        block["mrope_section"] = [size for size in sections if whole(size)]
    return (
        block
        if block["rope_type"] != "default"
        else {k: v for k, v in block.items() if k not in _SCALED_ONLY}
    )


def _gguf_layers(said: Mapping[str, Any], arch: str, full: Block) -> Blocks | None:
    declared = said.get("rope.freq_base_swa")
    sliding = declared if _is_above(declared, 1) else family_of(arch).gguf_sliding_theta
    if sliding is None or not said.get("attention.sliding_window"):
        return None
    return {"full_attention": full, "sliding_attention": _plain(sliding, {})}


def _no_rope() -> RopeConfig:
    names = ("rope_theta", "rope_scaling", "rope_parameters", "partial_rotary_factor", "rotary_dim")
    return RopeConfig({}, None, dict.fromkeys(names, Fact(None, "derived", "no rotary positions")))


def _record(
    flat: Block,
    nested: Blocks | None,
    theta: Fact,
    partial: Fact,
    rotary_dim: Fact,
    findings: tuple[Finding, ...],
    source: Source = "config",
) -> RopeConfig:
    facts = {
        "rope_theta": theta,
        "rope_scaling": Fact(scaling_of(flat), source),
        "rope_parameters": Fact(nested or flat, source),
        "partial_rotary_factor": partial,
        "rotary_dim": rotary_dim,
    }
    return RopeConfig(flat, nested, facts, findings)


class _Reader:
    """One pass over a config: its blocks in canonical form, and the findings on the way."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self.model_type = str(config.get("model_type") or "")
        self.family = family_of(self.model_type)
        self.max_len = whole(config.get("max_position_embeddings"))
        self.original_assumed = False
        self.findings: list[Finding] = []
        self.top_theta = self._top_theta()
        self.top_partial = self._top(_PARTIAL_KEYS)

    def _find(self, code: str, severity: Severity, message: str, **where: Any) -> None:
        self.findings.append(Finding(code, severity, message, where))

    def _invalid(self, field: str, value: Any, expected: str) -> None:
        message = f"{field} is {value!r}, not {expected}; it is ignored"
        self._find("rope_value_invalid", "error", message, field=field, value=repr(value))

    def declared_block(self) -> Block:
        """``rope_scaling`` if it says anything, else ``rope_parameters``: the order of transformers 5.24."""
        legacy, modern = self._mapping("rope_scaling"), self._mapping("rope_parameters")
        old, new = type_of(full_block(legacy)), type_of(full_block(modern))
        if legacy and modern and old != new:
            message = f"rope_scaling says {old}, rope_parameters says {new}; transformers uses rope_scaling"
            self._find("rope_type_conflict", "error", message, rope_scaling=old, rope_parameters=new)
        return dict(legacy or modern or {})

    def _mapping(self, key: str) -> Mapping[str, Any] | None:
        value = self.config.get(key)
        if value is None or isinstance(value, Mapping):
            return value
        self._invalid(key, value, "an object")
        return None

    def flat(self, raw: Mapping[str, Any], *, theta: Any = None) -> Block:
        """One block: type canonical, base and rotated share moved in, numbers checked, null left out."""
        declared = {
            key: value for key, value in raw.items() if value is not None and self._is_valid(key, value)
        }
        base = _first(declared.get("rope_theta"), theta, self.top_theta, self.family.rope_theta)
        block: Block = {
            "rope_type": self._type(declared),
            "rope_theta": _MIXIN_THETA if base is None else base,
        }
        partial = _first(declared.get("partial_rotary_factor"), self.top_partial, self.family.partial_rotary)
        if partial is not None:
            block["partial_rotary_factor"] = partial
        block |= {key: value for key, value in declared.items() if key not in block and key != "type"}
        if raw.get("rope_type") == "telechat3-yarn" and "factor" in block:
            # vLLM 0.33, transformers_utils/config.py:652
            block.setdefault("attention_factor", 0.07 * math.log(block["factor"]) + 1.0)
        if "original_max_position_embeddings" in block:
            block["original_max_position_embeddings"] = int(block["original_max_position_embeddings"])
        if block["rope_type"] in _FROM_ORIGINAL:
            self._fill_original(block)
        return block

    def _is_valid(self, key: str, value: Any) -> bool:
        if key == "mrope_section":
            valid = isinstance(value, list) and all(isinstance(size, int) and size > 0 for size in value)
            expected = "a list of whole numbers"
        elif key == "original_max_position_embeddings":
            valid, expected = (whole(value) or 0) > 1, "a length in tokens"
        elif key == "rope_theta":
            valid, expected = _is_above(value, 1), "a number above 1"
        elif key in _POSITIVE:
            valid, expected = _is_above(value, 0), "a positive number"
        else:
            valid, expected = key not in _NUMBERS or is_number(value), "a number"
        if not valid:
            self._invalid(key, value, expected)
        return valid

    def _type(self, block: Mapping[str, Any]) -> str:
        modern, legacy = block.get("rope_type"), block.get("type")
        canonical = type_of(block)
        if modern is not None and legacy is not None and canonical_type(legacy) != canonical:
            message = (
                f"type says {legacy}, rope_type {modern}: vLLM refuses to start, transformers uses {modern}"
            )
            self._find("rope_type_conflict", "error", message, type=legacy, rope_type=modern)
        if "su" in (modern, legacy):
            message = "type su is a name that transformers 5 no longer knows; write rope_type longrope"
            self._find("rope_type_legacy", "warning", message, value="su", canonical="longrope")
        if canonical not in KNOWN_TYPES:
            message = f"{canonical} is no rope type that an engine knows"
            self._find("rope_type_unknown", "warning", message, field="rope_type", value=canonical)
        return canonical

    def _top(self, keys: tuple[str, ...], *, above: float = 0) -> Any:
        """The first of these keys of the config that is stated as a number above the bound."""
        for key in keys:
            value = self.config.get(key)
            if value is not None and not isinstance(value, list):
                if _is_above(value, above):
                    return value
                self._invalid(key, value, f"a number above {above:g}")
        return None

    def _top_theta(self) -> Any:
        ratio = self._top(("rope_ratio",))  # ChatGLM: 10,000 x rope_ratio
        return self._top(_THETA_KEYS, above=1) if ratio is None else _MIXIN_THETA * ratio

    def _fill_original(self, block: Block) -> None:
        outside = whole(self.config.get("original_max_position_embeddings"))
        if outside is not None:  # Phi: the value beside the block wins over the one inside
            block["original_max_position_embeddings"] = outside
        if "original_max_position_embeddings" in block or self.max_len is None:
            return
        block["original_max_position_embeddings"] = assumed = self.max_len
        self.original_assumed = True
        factor = block.get("factor", 1.0)
        message = (
            f"original_max_position_embeddings is missing: transformers and vLLM assume {assumed}. If "
            f"max_position_embeddings is already scaled, the original is {assumed / factor:g}; state it"
        )
        where = {
            "assumed": assumed,
            "scaled_context": int(assumed * factor),
            "if_already_scaled": assumed / factor,
        }
        self._find("rope_original_missing", "warning", message, **where)

    def nested(self, raw: Mapping[str, Any]) -> Blocks | None:
        """One block per layer type where the config, its keys or its class make a difference; else None."""
        if is_nested(raw):
            return {
                key: None if value is None else self.flat(value)
                for key, value in raw.items()
                if value is None or isinstance(value, Mapping)
            }
        if isinstance(self.config.get("rope_theta"), list):
            return self._theta_per_layer(raw, self.config["rope_theta"])
        if (compress := self._top(("compress_rope_theta",), above=1)) is not None:
            return self._compressed(raw, compress)
        sliding = self._top(_SLIDING_THETA_KEYS, above=1)
        if sliding is None and self.family.sliding_theta is None:
            return None
        full = self.flat(raw)
        base = _first(sliding, self.family.sliding_theta or full["rope_theta"])
        return {"full_attention": full, "sliding_attention": _plain(base, full)}

    def _theta_per_layer(self, raw: Mapping[str, Any], thetas: list[Any]) -> Blocks | None:
        """Step-3.5: one base per layer, beside ``layer_types``; only full layers carry the scaling."""
        layer_types = self.config.get("layer_types")
        if (
            not isinstance(layer_types, list)
            or len(layer_types) > len(thetas)
            or not all(map(is_number, thetas))
        ):
            self._invalid("rope_theta", thetas, "one number for each layer type")
            return None
        bases = {str(layer_type): theta for layer_type, theta in zip(layer_types, thetas, strict=False)}
        shares = self._share_per_layer(layer_types)
        blocks = {
            key: self.flat(raw, theta=theta) if key == "full_attention" else _plain(theta, {})
            for key, theta in bases.items()
        }
        for key in shares.keys() & blocks.keys():
            blocks[key] = {**blocks[key], "partial_rotary_factor": shares[key]}
        return {**blocks}

    def _share_per_layer(self, layer_types: list[Any]) -> dict[str, float]:
        """The rotated share by layer type, where one is listed for each layer (Step-3.5)."""
        shares = self.config.get("partial_rotary_factors")
        if not isinstance(shares, list) or not all(is_number(share) and 0 < share <= 1 for share in shares):
            return {}
        return {str(layer_type): share for layer_type, share in zip(layer_types, shares, strict=False)}

    def _compressed(self, raw: Mapping[str, Any], theta: Any) -> Blocks:
        """DeepSeek-V4: only layers with a compressor are scaled, and without YaRN's magnitude."""
        scaled = self.flat({**raw, "rope_theta": theta})
        if scaled["rope_type"] == "yarn":
            scaled.setdefault("attention_factor", 1.0)
        return {"main": self.flat({}, theta=raw.get("rope_theta")), "compress": scaled}

    def theta_fact(self, raw: Mapping[str, Any], block: Block) -> Fact:
        """Base of the full-attention layers; a second value beside the block is told."""
        value = block["rope_theta"]
        inside, beside = raw.get("rope_theta"), self.top_theta
        if _is_above(inside, 1):
            if beside is not None and beside != inside:
                message = (
                    f"rope_theta is {beside:g} beside the rope block, {inside:g} inside; the inner value wins"
                )
                self._find("rope_theta_conflict", "warning", message, top_level=beside, nested=inside)
            return Fact(value, "config", "rope_theta in the rope block")
        if value in (beside, self.config.get("compress_rope_theta")) or isinstance(
            self.config.get("rope_theta"), list
        ):
            return Fact(value, "config", "rope_theta beside the rope block")
        owner = f"class {self.model_type}" if self.family.rope_theta else "any class"
        return Fact(value, "default", f"default_theta of {owner} in transformers 5.24")

    def partial_fact(self, block: Block, head_dim: int | None) -> Fact:
        """Share of each head that turns."""
        value = block.get("partial_rotary_factor")
        rotary_dim = whole(self.config.get("rotary_dim"))
        if value is None and rotary_dim and head_dim:
            return Fact(rotary_dim / head_dim, "derived", "rotary_dim / head_dim")
        if value is None:
            return Fact(1.0, "default", "whole heads")
        if self.top_partial is None and value == self.family.partial_rotary:
            return Fact(value, "default", f"class {self.model_type} in transformers 5.24")
        return Fact(value, "config", "partial_rotary_factor")

    def rotary_dim(self, block: Block, partial: float, head_dim: int | None) -> Fact:
        """Numbers of each head that turn, two for each pair."""
        for key in ("qk_rope_head_dim", "rotary_dim"):
            if width := whole(self.config.get(key)):
                return Fact(width, "config", key)
        if head_dim is None:
            return Fact(None, "derived", "head_dim is unknown")
        if block["rope_type"] == "proportional":
            return Fact(2 * int(partial * head_dim // 2), "derived", "numbers that turn at all")
        return Fact(int(head_dim * partial), "derived", "head_dim x partial_rotary_factor")


def _plain(theta: Any, full: Block) -> Block:
    kept = {key: full[key] for key in ("partial_rotary_factor",) if key in full}
    return {"rope_type": "default", "rope_theta": theta, **kept}


def _is_above(value: Any, bound: float) -> bool:
    return is_number(value) and value > bound


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)
