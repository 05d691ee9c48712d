"""What a type of cache is known to cost in quality: a rule, where no run has measured it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Loss = Literal["none", "little", "visible"]
LOSSES: tuple[Loss, ...] = ("none", "little", "visible")  # the better first


@dataclass(frozen=True, slots=True)
class CacheCost:
    """How much a cache type loses, and who says so.

    ``recall`` is the share of facts found at the longest length that a run asked for (``measured``); None for
    a rule.
    """

    loss: Loss
    basis: Literal["rule", "measured"]
    source: str
    recall: float | None = None


# KL divergence of Llama 3 8B with f16 weights: 0.0010 with q8_0 keys and values, 0.0002 with f16, 0.0018 with
# q5_1 values alone; weights of q8_0 lose 0.0014, of q6_K 0.0055 (ggml-org/llama.cpp#7412, #6936).
_GGML = "KL divergence by type of cache, ggml-org/llama.cpp#7412"
_VLLM = "one byte a value, docs/features/quantization/quantized_kvcache.md of vLLM 0.33"
_RULES = {
    **dict.fromkeys(("auto", "f32", "f16", "bf16"), CacheCost("none", "rule", "two bytes a value or more")),
    "q8_0": CacheCost("little", "rule", _GGML),
    **dict.fromkeys(("fp8", "fp8_e4m3", "fp8_e5m2"), CacheCost("little", "rule", _VLLM)),
}
_SMALLER = CacheCost("visible", "rule", _GGML)


def cost_of(cache_type: str) -> CacheCost:
    """The rule for a type; what has fewer than eight bits loses visibly, the keys most."""
    return _RULES.get(cache_type, _SMALLER)


def describe_loss(cost: CacheCost) -> str:
    """What it costs in a few words, and who says so where that is a run."""
    if cost.basis == "measured":
        found = "" if cost.recall is None else f"recall {cost.recall:.0%} with this cache type, "
        return f"{found}{cost.source}"
    if cost.loss == "none":
        return ""
    return "this cache type loses little" if cost.loss == "little" else "this cache type loses visibly"
