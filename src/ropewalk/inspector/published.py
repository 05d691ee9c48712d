"""What publishers say about the context of their models, where the checkpoint itself does not.

The one hand-kept table of this project: short, each row with its source, each model recognised by its
fields and never by the name of its repository.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ropewalk.inspector.derive.families import family_of
from ropewalk.inspector.records import Fact
from ropewalk.inspector.rope_blocks import full_block, is_nested


@dataclass(frozen=True, slots=True)
class PublishedRule:
    """A publisher's context rule.

    ``native_context`` is the length that the weights were trained for, ``max_validated`` the longest that
    the publisher describes, ``yarn_original`` the length that YaRN factors are counted from (None: the
    publisher gives no YaRN rule).
    """

    name: str
    native_context: int
    max_validated: int
    yarn_original: int | None
    note: str
    source: str


@dataclass(frozen=True, slots=True)
class _Row:
    """How a model is recognised: ``sizes`` are (num_hidden_layers, hidden_size), None for any.

    ``needs_intermediate``: an unknown ``intermediate_size`` is no match; ``alpha`` is that of the rope block.
    """

    rule: PublishedRule
    model_types: frozenset[str]
    max_position_embeddings: frozenset[int]
    rope_thetas: frozenset[float]
    sizes: frozenset[tuple[int, int]] | None
    intermediate_sizes: frozenset[int] | None = None
    needs_intermediate: bool = False
    alpha: float | None = None


_QWEN3_SIZES = frozenset(
    {(28, 1024), (28, 2048), (36, 2560), (36, 4096), (40, 5120), (64, 5120), (48, 2048), (94, 4096)}
)
_QWEN2_SIZES = frozenset({(28, 3584), (48, 5120), (64, 5120), (80, 8192)})

# model types are spelled without "_" and "_text", as GGUF architectures are.
_TABLE = (
    _Row(
        PublishedRule(
            "Qwen3", 32768, 131072, 32768,
            "factor = length / 32,768; the publisher advises against it where prompts stay under 32,768",
            "QwenLM/Qwen3 docs/source/inference/transformers.md, run_locally/llama.cpp.md",
        ),
        model_types=frozenset({"qwen3", "qwen3moe"}),
        max_position_embeddings=frozenset({40960}),
        rope_thetas=frozenset({1e6}),
        sizes=_QWEN3_SIZES,
    ),
    _Row(
        PublishedRule(
            "Qwen3-Coder-30B-A3B", 262144, 1048576, 262144,
            "256K as it is, up to 1M with YaRN",
            "model card of Qwen3-Coder-30B-A3B-Instruct; QwenLM/Qwen3-Coder#508",
        ),
        model_types=frozenset({"qwen3moe"}),
        max_position_embeddings=frozenset({262144}),
        rope_thetas=frozenset({1e7}),
        sizes=frozenset({(48, 2048)}),
        intermediate_sizes=frozenset({5472}),  # 6144 in the 2507 series
        needs_intermediate=True,
    ),
    _Row(
        PublishedRule(
            "Hunyuan with NTK alpha", 262144, 262144, None,
            "alpha 1,000 replaces the base at every length; the publisher describes 256K by lifting "
            "max_position_embeddings",
            "Tencent-Hunyuan/Hunyuan-A13B model card, 'Model Context Length Support'",
        ),
        model_types=frozenset({"hunyuan", "hunyuanv1moe", "hunyuanv1dense"}),
        max_position_embeddings=frozenset({32768}),
        rope_thetas=frozenset({1e4}),
        sizes=None,
        alpha=1000.0,
    ),
    _Row(
        PublishedRule(
            "Qwen3-2507", 262144, 262144, None,
            "1M tokens only with the publisher's config_1m.json (dual chunk attention), not in vLLM 0.33",
            "model cards of Qwen3-4B/30B-A3B/235B-A22B-Instruct-2507",
        ),
        model_types=frozenset({"qwen3", "qwen3moe"}),
        max_position_embeddings=frozenset({262144}),
        rope_thetas=frozenset({5e6, 1e7}),
        sizes=frozenset({(36, 2560), (48, 2048), (94, 4096)}),
        intermediate_sizes=frozenset({9728, 6144, 12288}),
    ),
    _Row(
        PublishedRule(
            "Qwen2, Qwen2.5, QwQ (7B and larger)", 32768, 131072, 32768,
            "factor 4.0 reaches 131,072; the publisher advises YaRN only where long texts are processed",
            "model cards of Qwen2-72B-Instruct (12354c2), Qwen2.5-7B-Instruct (aa1b431), QwQ-32B",
        ),
        model_types=frozenset({"qwen2"}),
        max_position_embeddings=frozenset({32768, 40960}),
        rope_thetas=frozenset({1e6}),
        sizes=_QWEN2_SIZES,
        intermediate_sizes=frozenset({18944, 13824, 27648, 29568}),  # those of Qwen1.5 differ
    ),
    _Row(
        PublishedRule(
            "Qwen2-57B-A14B", 32768, 131072, 32768,
            "factor 4.0 reaches 131,072",
            "model card of Qwen2-57B-A14B-Instruct (fc2911e)",
        ),
        model_types=frozenset({"qwen2moe"}),
        max_position_embeddings=frozenset({32768}),
        rope_thetas=frozenset({1e6}),
        sizes=frozenset({(28, 3584)}),
    ),
    _Row(
        PublishedRule(
            "Qwen3-Next", 262144, 1010000, 262144,
            "factor 4.0 is described for 1,010,000 tokens",
            "model card of Qwen3-Next-80B-A3B-Instruct",
        ),
        model_types=frozenset({"qwen3next"}),
        max_position_embeddings=frozenset({262144}),
        rope_thetas=frozenset({1e7}),
        sizes=frozenset({(48, 2048)}),
    ),
    _Row(
        PublishedRule(
            "Qwen3.5, Qwen3.6, Qwen3.8", 262144, 1010000, 262144,
            "factor 2.0 for about 524,000 tokens, 4.0 for 1,010,000",
            "vllm-project/recipes models/Qwen/Qwen3.8-27B.yaml, Qwen/Qwen3.5.md",
        ),
        model_types=frozenset({"qwen35", "qwen35moe"}),
        max_position_embeddings=frozenset({262144}),
        rope_thetas=frozenset({1e7}),
        sizes=None,
    ),
    _Row(
        PublishedRule(
            "Qwen3-VL", 262144, 786432, 262144,
            "factor 3.0, a table of 786,432 rows; the publisher's 1,000,000 tokens are of video, whose "
            "positions grow slower",
            "vllm-project/recipes Qwen3-VL, vllm-project/vllm#25384",
        ),
        model_types=frozenset({"qwen3vl", "qwen3vlmoe"}),
        max_position_embeddings=frozenset({262144}),
        rope_thetas=frozenset({5e6}),
        sizes=None,
    ),
    _Row(
        PublishedRule(
            "SmolLM3-3B", 65536, 131072, 65536,
            "factor 2.0 reaches 131,072",
            "model card of SmolLM3-3B (commit 01580ef of SmolLM3-3B-Base)",
        ),
        model_types=frozenset({"smollm3"}),
        max_position_embeddings=frozenset({65536}),
        rope_thetas=frozenset({5e6}),
        sizes=frozenset({(36, 2048)}),
    ),
)  # fmt: skip


def rule_for(facts: Mapping[str, Fact]) -> PublishedRule | None:
    """The rule of the model that these facts describe; None where no publisher's rule is known.

    Every field that is stated must agree; one that is unknown or a library's default does not count
    against. A config with the publisher's own YaRN block in it is still that model.
    """
    return next((row.rule for row in _TABLE if _matches(row, facts)), None)


def _matches(row: _Row, facts: Mapping[str, Fact]) -> bool:
    model_type = str(_declared(facts, "model_type") or "").replace("_", "").removesuffix("text")
    if model_type not in row.model_types:
        return False
    theta, intermediate = _declared(facts, "rope_theta"), _declared(facts, "intermediate_size")
    return (
        (
            _is_own_block(row, facts)
            or _declared(facts, "max_position_embeddings") in row.max_position_embeddings
        )
        and (theta is None or theta in row.rope_thetas)
        and _size_agrees(row, facts)
        and (
            row.intermediate_sizes is None
            or intermediate in row.intermediate_sizes
            or (intermediate is None and not row.needs_intermediate)
        )
        and (row.alpha is None or full_block(_declared(facts, "rope_parameters")).get("alpha") == row.alpha)
    )


def _is_own_block(row: _Row, facts: Mapping[str, Fact]) -> bool:
    block = full_block(_declared(facts, "rope_parameters"))
    original = row.rule.yarn_original
    return (
        original is not None
        and block.get("rope_type") == "yarn"
        and block.get("original_max_position_embeddings") == original
    )


def _size_agrees(row: _Row, facts: Mapping[str, Fact]) -> bool:
    size = (_declared(facts, "num_hidden_layers"), _declared(facts, "hidden_size"))
    return row.sizes is None or None in size or size in row.sizes


def _declared(facts: Mapping[str, Fact], name: str) -> Any:
    fact = facts.get(name)
    return None if fact is None or fact.source == "default" else fact.value


def contexts(facts: Mapping[str, Fact]) -> dict[str, Fact]:
    """``native_context`` (trained for) and ``supported_context`` (described), from the facts gathered so far.

    Reads ``max_position_embeddings``, ``model_max_length`` (that of config.json, not of a tokenizer),
    ``trained_context`` (what a dual-chunk block says was trained; no engine reads that block any more),
    ``rope_parameters`` and the fields by which :func:`rule_for` recognises a model. Without a publisher's
    rule both are the config's length; a linear or dynamic factor multiplies it, every other scaling is
    included in it already (vLLM 0.33, config/model.py:2545-2609).
    """
    config = config_context(facts)
    rule = rule_for(facts)
    trained = facts.get("trained_context")
    if trained is not None:
        return {"native_context": trained, "supported_context": trained}
    if rule is None:
        return {"native_context": config, "supported_context": config}
    native = Fact(rule.native_context, "derived", f"published for {rule.name}: {rule.source}")
    longest = max(rule.max_validated, config.value or 0) if rule.yarn_original is None else rule.max_validated
    return {
        "native_context": native,
        "supported_context": Fact(longest, "derived", f"{rule.note} ({rule.source})"),
    }


def config_context(facts: Mapping[str, Fact]) -> Fact:
    """The length that the config allows, whatever was trained or published."""
    declared = facts.get("max_position_embeddings")
    if declared is None or not isinstance(declared.value, int):
        return Fact(None, "derived", "no length is stated")
    longer = facts.get("model_max_length")
    if longer is not None and isinstance(longer.value, int) and longer.value > declared.value:
        return longer  # Command R: 131,072 beside max_position_embeddings 8,192; vLLM takes it too
    parameters = _declared(facts, "rope_parameters") or {}
    block = full_block(parameters)
    factor = block.get("factor")
    multiplied = block.get("rope_type") in ("linear", "dynamic", "ntk") and not is_nested(parameters)
    if factor and multiplied and not family_of(_declared(facts, "model_type")).factor_included:
        return Fact(
            int(declared.value * factor), "derived", f"max_position_embeddings x {block['rope_type']} factor"
        )
    return declared
