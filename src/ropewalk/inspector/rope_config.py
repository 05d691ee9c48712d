"""A config's or a GGUF's words about rotary positions, in any of their generations, to one spelling.

The canonical form is that of transformers 5: one flat block with ``rope_type`` and ``rope_theta``, or one
such block per layer type. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ropewalk.findings import Finding
from ropewalk.inspector.records import Fact, Source

Block = dict[str, Any]

# Other spellings of a type, as vLLM 0.33 rewrites them (transformers_utils/config.py:609-665).
_ALIASES = {"su": "longrope", "mrope": "default", "telechat3-yarn": "yarn", "deepseek_yarn": "yarn"}
KNOWN_TYPES = frozenset(
    {"default", "linear", "dynamic", "ntk", "yarn", "longrope", "llama3", "proportional", "none"}
)
# Types that scale from the length of pre-training; transformers 5.24 fills it in (modeling_rope_utils.py:806).
_FROM_ORIGINAL = frozenset({"yarn", "longrope", "llama3"})
_NEEDS_FACTOR = frozenset({"yarn", "llama3", "linear", "ntk"})

# Class attributes ``default_theta`` of transformers 5.24 where they are not the mixin's 10,000.
_MIXIN_THETA = 10_000.0
_CLASS_THETA = {
    "cwm": 1e6, "ernie4_5": 5e5, "ernie4_5_moe": 5e5, "exaone": 5e5, "flex_olmo": 5e5,
    "gemma3": 1e6, "gemma3_text": 1e6, "gemma3n_text": 1e6, "gemma4_text": 1e6, "gpt_oss": 1.5e5, "hy_v3": 11_158_840.0,
    "lfm2": 1e6, "lfm3": 1e6, "llama4_text": 5e5, "longcat_flash": 1e7, "minimax": 1e6, "minimax_m2": 5e6,
    "mixtral": 1e6, "mllama_text_model": 5e5, "modernbert": 1.6e5, "modernbert_decoder": 1.6e5, "olmo3": 5e5,
    "phimoe": 1e6, "qwen2_vl_text": 1e6, "qwen2_5_vl_text": 1e6, "qwen3_vl_text": 5e5,
    "qwen3_vl_moe_text": 5e5, "smollm3": 2e6,
}  # fmt: skip
# Share of each head that these classes rotate where the config does not say (``setdefault`` in their
# configuration files, transformers 5.24).
_CLASS_PARTIAL = {
    "glm": 0.5, "glm4": 0.5, "glm4_moe": 0.5, "gpt_neox": 0.25, "nemotron": 0.5, "persimmon": 0.5,
    "phi": 0.5, "qwen3_5_text": 0.25, "qwen3_5_moe_text": 0.25, "qwen3_next": 0.25,
    "recurrent_gemma": 0.5, "stablelm": 0.25, "bamba": 0.5, "chatglm": 0.5,
}  # fmt: skip
# Classes whose sliding layers keep a plain block of their own however flat the config is written, and its
# base (None: that of the full layers); convert_rope_params_to_dict of each, transformers 5.24.
_CLASS_SLIDING_THETA: dict[str, float | None] = {
    "gemma3": 1e4, "gemma3_text": 1e4, "gemma3n_text": 1e4, "modernbert": 1e4, "modernbert_decoder": 1e4,
    "olmo3": None,
}  # fmt: skip
# llama.cpp b11434: sliding layers turn at this base unless rope.freq_base_swa says otherwise.
_GGUF_SLIDING_THETA = {"gemma3": 1e4, "gemma3n": 1e4}

_THETA_KEYS = ("rope_theta", "global_rope_theta", "rotary_emb_base", "rope_base")
_SLIDING_THETA_KEYS = ("rope_local_base_freq", "local_rope_theta", "swa_rope_theta")
_PARTIAL_KEYS = ("partial_rotary_factor", "rotary_pct", "rotary_percent", "rope_pct")


@dataclass(frozen=True, slots=True)
class RopeConfig:
    """Rotary positions of a checkpoint in one spelling.

    ``parameters`` is the flat block of the full-attention layers (``rope_type``, ``rope_theta`` and what
    the type needs), empty where the model has no rotary positions; ``per_layer_type`` one block per layer
    type where they differ, None for a type without rotation. ``facts`` are ``rope_theta``,
    ``rope_scaling``, ``rope_parameters``, ``partial_rotary_factor`` and ``rotary_dim`` with their sources.
    """

    parameters: Block
    per_layer_type: dict[str, Block | None] | None
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

    ``head_dim`` is the width that rotation is a share of (``qk_rope_head_dim`` for latent attention);
    ``outer`` the top level of a composite config, asked where the text config is silent. ``rotary`` False
    (learned positions, ALiBi, none) gives an empty record. Priorities are those of transformers 5.24
    (modeling_rope_utils.py:775 and :806).
    """
    raise NotImplementedError


def rope_from_gguf(
    metadata: Mapping[str, Any],
    *,
    head_dim: int | None,
    has_rope_freqs: bool = False,
    has_long_factors: bool = False,
    rotary: bool = True,
) -> RopeConfig:
    """The same record from GGUF metadata (``general.architecture`` and ``<arch>.rope.*``).

    ``has_rope_freqs`` says that ``rope_freqs.weight`` is stored (a llama3 or proportional scaling baked
    into divisors), ``has_long_factors`` that ``rope_factors_long.weight`` is (longrope).
    """
    raise NotImplementedError
