"""Fields whose values the shapes of the blocks show: widths, experts, ranks and heads of latent attention."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from ropewalk.inspector.derive.evidence import BlockEvidence
from ropewalk.inspector.derive.families import family_of
from ropewalk.inspector.derive.heads import LatentSizes, prove_latent
from ropewalk.inspector.derive.packing import Weight
from ropewalk.inspector.derive.settings import Settings

_NO_SIZES = LatentSizes()


@dataclass(frozen=True, slots=True)
class Observed:
    """What the blocks show of one field: the value in each layer that shows one, and the first tensor."""

    values: Mapping[int, int]
    tensor: str
    assumed: bool = False

    @property
    def usual(self) -> int:
        """The value of most layers."""
        return Counter(self.values.values()).most_common(1)[0][0]


def observed_fields(
    settings: Settings, evidence: Mapping[int, BlockEvidence], *, hidden_size: int | None, prefix: str
) -> dict[str, Observed]:
    """What the blocks show, by field of the config."""
    seen: dict[int, list[tuple[str, int, str]]] = {}
    values: dict[str, dict[int, int]] = {}
    tensors: dict[str, str] = {}
    assumed: dict[str, bool] = {}
    for index, block in evidence.items():
        if id(block) not in seen:
            seen[id(block)] = list(_block_fields(block, hidden_size))
        for name, value, tensor in seen[id(block)]:
            values.setdefault(name, {})[index] = value
            tensors.setdefault(name, f"{prefix}{index}.{tensor}")
            doubted = (w.assumed or w.inputs_assumed for w in block.weights if w.name == tensor)
            assumed.setdefault(name, any(doubted))
    observed = {name: Observed(by_layer, tensors[name], assumed[name]) for name, by_layer in values.items()}
    return _by_declared_names(settings, observed)


def _by_declared_names(settings: Settings, observed: dict[str, Observed]) -> dict[str, Observed]:
    """The same under the names that this config uses.

    A mixture of experts may call the width of an expert ``intermediate_size``; a config with latent
    attention states as many KV heads as query heads (a GGUF file states the one that is cached).
    """
    dense = observed.get("intermediate_size")
    if dense is not None and _counts_both_halves(settings, dense, observed):
        doubled = {layer: 2 * width for layer, width in dense.values.items()}
        observed["intermediate_size"] = Observed(doubled, dense.tensor, dense.assumed)
    observed.pop("up_len", None)
    experts = observed.get("moe_intermediate_size")
    if experts is not None and settings.value("moe_intermediate_size") is None:
        dense = observed.get("intermediate_size", experts)
        observed["intermediate_size"] = Observed(
            {**experts.values, **dense.values}, dense.tensor, dense.assumed
        )
    if "num_attention_heads" in observed and settings.format == "config":
        observed["num_key_value_heads"] = observed["num_attention_heads"]
    return observed


def _counts_both_halves(settings: Settings, dense: Observed, observed: Mapping[str, Observed]) -> bool:
    """Whether the stated width is that of a fused gate and up-projection (Moshi), or of both by the class."""
    if family_of(settings.model_type).counts_both_halves:
        return True
    declared, up = settings.integer("intermediate_size"), observed.get("up_len")
    return declared is not None and declared == 2 * dense.usual and up is not None and up.usual == declared


def _block_fields(block: BlockEvidence, hidden_size: int | None) -> Iterator[tuple[str, int, str]]:
    """(field, value, tensor relative to the block)."""
    dense = block.inputs("down", hidden_size)
    if dense:
        both = 2 if _states_both_halves(block) else 1
        yield "intermediate_size", both * dense, block.roles["down"].name
        up = block.out("up", hidden_size)
        if up:
            yield "up_len", up, block.roles["up"].name
    for role in ("expert_down", "down"):
        weight = block.roles.get(role)
        if weight is not None and (role == "expert_down" or len(weight.shape) == 3):
            yield from _expert_fields(weight, hidden_size)
            break
    shared = block.inputs("shared_down", hidden_size)
    if shared:
        yield "shared_expert_intermediate_size", shared, block.roles["shared_down"].name
    rank = block.width("q_a_norm")
    if rank:
        yield "q_lora_rank", rank, block.roles["q_a_norm"].name
    if block.mixer == "latent":
        yield from _latent_fields(block, hidden_size)


def _states_both_halves(block: BlockEvidence) -> bool:
    """Qwen 1 counts gate and up-projection together; only there a gate ``w1`` meets a ``c_proj``."""
    names = {weight.name for weight in block.weights}
    return {"mlp.w1.weight", "mlp.w2.weight", "mlp.c_proj.weight"} <= names


def _expert_fields(weight: Weight, hidden_size: int | None) -> Iterator[tuple[str, int, str]]:
    """Experts are numbered, or stacked in one tensor of three sides; a lone matrix shows nothing."""
    if len(weight.shape) != 3 and (len(weight.shape) != 2 or weight.count == 1):
        return
    out, inner = weight.shape[-2:]
    width = out if inner == hidden_size and out != hidden_size else inner
    yield "moe_intermediate_size", width, weight.name
    yield "num_experts", weight.shape[0] if len(weight.shape) == 3 else weight.count, weight.name


def _latent_fields(block: BlockEvidence, hidden_size: int | None) -> Iterator[tuple[str, int, str]]:
    proven = prove_latent(block, _NO_SIZES, hidden_size)
    first = block.roles["kv_a"]
    for item in fields(LatentSizes):
        value = getattr(proven, item.name)
        if value is not None:
            yield item.name, value, first.name
