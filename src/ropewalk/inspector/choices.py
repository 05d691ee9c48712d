"""The record of choices: shape of the model, positions, normalisation, feed-forward, with what shows each."""

from __future__ import annotations

from collections.abc import Mapping

from ropewalk.inspector.evidence import BlockEvidence
from ropewalk.inspector.families import family_of
from ropewalk.inspector.records import Fact
from ropewalk.inspector.settings import Settings

_RMS_KEYS = ("rms_norm_eps", "norm_eps", "attention.layer_norm_rms_epsilon", "layer_norm_type")
_LAYER_NORM_KEYS = (
    "layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "norm_epsilon",
    "attention.layer_norm_epsilon",
)  # fmt: skip
_ACTIVATIONS = (
    "hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act", "dense_act_fn", "activation",
    "ff_activation", "hidden_activation",
)  # fmt: skip


def choices(settings: Settings, evidence: Mapping[int, BlockEvidence]) -> dict[str, Fact]:
    """``model_shape``, ``normalisation`` and ``feed_forward``; each value in words, None where unknown."""
    block = next(iter(evidence.values()), None)
    return {
        "model_shape": _model_shape(settings),
        "normalisation": _normalisation(settings, block),
        "feed_forward": _feed_forward(settings, block),
    }


def _model_shape(settings: Settings) -> Fact:
    if settings.value("is_encoder_decoder") is True:
        fact = settings.facts["is_encoder_decoder"]
        return Fact("encoder-decoder", fact.source, fact.detail)
    if family_of(settings.model_type).encoder_only or settings.raw("attention.causal") is False:
        return Fact("encoder only", "derived", f"model_type {settings.model_type}")
    return Fact("decoder only", "derived", f"architecture {settings.architecture}")


def _normalisation(settings: Settings, block: BlockEvidence | None) -> Fact:
    """RMS norms have no bias; the key of the epsilon names the kind where there are no tensors."""
    if block is not None:
        norms = [weight.name for weight in block.weights if "norm" in weight.name or "ln_" in weight.name]
        biased = [name for name in norms if name.endswith(".bias")]
        if biased:
            return Fact("LayerNorm", "tensor", biased[0])
    for kind, keys in (("RMSNorm", _RMS_KEYS), ("LayerNorm", _LAYER_NORM_KEYS)):
        key = next((key for key in keys if settings.raw(key) is not None), None)
        if key is not None:
            return Fact(kind, settings.source, key)
    return Fact(None, "derived", "no key of a norm is stated")


def _feed_forward(settings: Settings, block: BlockEvidence | None) -> Fact:
    """Gated where there is a gate beside the up-projection, else two matrices; with its activation."""
    key = next((key for key in _ACTIVATIONS if isinstance(settings.raw(key), str)), None)
    activation = str(settings.raw(key)) if key else None
    mixture = "mixture of experts, " if settings.integer("num_experts") else ""
    if block is None:
        return Fact(f"{mixture}{activation}" if activation else None, settings.source, key)
    gated = any(role.endswith(("gate", "gate_up")) for role in block.roles)
    if not gated and not any(role.endswith("up") for role in block.roles):
        return Fact(activation, settings.source, key)
    shape = "gated" if gated else "two matrices"
    detail = next(w.name for role, w in block.roles.items() if role.endswith(("gate", "gate_up", "up")))
    return Fact(f"{mixture}{shape}{f', {activation}' if activation else ''}", "tensor", detail)
