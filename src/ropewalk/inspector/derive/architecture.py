"""How a model is built: shape of the model, positions, normalisation, feed-forward, with what shows each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ropewalk.inspector.derive.evidence import BlockEvidence
from ropewalk.inspector.derive.families import family_of, is_encoder
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.records import Fact, Source

_RMS_KEYS = ("rms_norm_eps", "norm_eps", "attention.layer_norm_rms_epsilon")
_LAYER_NORM_KEYS = (
    "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "norm_epsilon",
    "attention.layer_norm_epsilon",
)  # fmt: skip
_ACTIVATIONS = (
    "hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act", "dense_act_fn", "activation",
)  # fmt: skip


def architecture_facts(
    settings: Settings,
    evidence: Mapping[int, BlockEvidence],
    *,
    num_experts: int | None,
    hidden_size: int | None,
) -> dict[str, Fact]:
    """``model_shape``, ``normalisation`` and ``feed_forward``; each value in words, None where unknown."""
    block = next(iter(evidence.values()), None)
    return {
        "model_shape": _model_shape(settings),
        "normalisation": _normalisation(settings, block),
        "feed_forward": _feed_forward(settings, evidence.values(), num_experts, hidden_size),
    }


def _model_shape(settings: Settings) -> Fact:
    if settings.value("is_encoder_decoder") is True:
        fact = settings.facts["is_encoder_decoder"]
        return Fact("encoder-decoder", fact.source, fact.detail)
    if is_encoder(settings) or settings.raw("attention.causal") is False:
        return Fact("encoder only", "derived", f"model_type {settings.model_type}")
    return Fact("decoder only", "derived", f"architecture {settings.architecture}")


def _normalisation(settings: Settings, block: BlockEvidence | None) -> Fact:
    """A norm with a bias is a LayerNorm; else the key of the epsilon names the kind."""
    if block is not None:
        norms = [weight.name for weight in block.weights if "norm" in weight.name or "ln_" in weight.name]
        biased = next((name for name in norms if name.endswith(".bias")), None)
        if biased is not None:
            return Fact("LayerNorm", "tensor", biased)
    own = family_of(settings.model_type).normalisation
    if own is not None:
        return Fact(own, "derived", f"model_type {settings.model_type}")
    for kind, keys in (("RMSNorm", _RMS_KEYS), ("LayerNorm", _LAYER_NORM_KEYS)):
        key = next((key for key in keys if settings.raw(key) is not None), None)
        if key is not None:
            return Fact(kind, _source(settings, key), key)
    return Fact(None, "derived", "no key of a norm is stated")


def _source(settings: Settings, key: str) -> Source:
    return settings.source if key in settings.block else "default"


def _feed_forward(
    settings: Settings, blocks: Iterable[BlockEvidence], num_experts: int | None, hidden_size: int | None
) -> Fact:
    """Gated where there is a gate beside the up-projection, else two matrices; with its activation."""
    key = next((key for key in _ACTIVATIONS if isinstance(settings.raw(key), str)), None)
    activation = str(settings.raw(key)) if key else None
    mixture = "mixture of experts" if num_experts else None
    for block in blocks:
        found = _matrices(block, hidden_size)
        if found is not None:
            shape, tensor = found
            return Fact(", ".join(filter(None, (mixture, shape, activation))), "tensor", tensor)
    value = ", ".join(filter(None, (mixture, activation))) or None
    return Fact(value, _source(settings, key) if key else settings.source, key)


def _matrices(block: BlockEvidence, hidden_size: int | None) -> tuple[str, str] | None:
    """How the feed-forward part of a block is built, and the tensor that shows it."""
    for role, weight in block.roles.items():
        if role.endswith(("gate", "gate_up")):
            return "gated", weight.name
    for role, weight in block.roles.items():
        if role.endswith("up"):
            inner = block.inputs(role.removesuffix("up") + "down", hidden_size)
            fused = inner is not None and block.out(role, hidden_size) == 2 * inner
            return "gated" if fused else "two matrices", weight.name
    return None
