"""One record per distinct kind of layer: what each keeps for the tokens it has seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ropewalk.inspector.derive.evidence import BlockEvidence
from ropewalk.inspector.derive.families import family_of
from ropewalk.inspector.derive.heads import Heads, prove_heads, prove_latent, stated_heads, stated_latent
from ropewalk.inspector.derive.patterns import LayerWord, layer_words, rotary_flags, shared_flags, window_of
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.derive.states import recurrent_state
from ropewalk.inspector.records import LayerGroup, LayerKind, StateTensor

_NO_HEADS = Heads()


@dataclass(frozen=True, slots=True)
class Layer:
    """What one block keeps: a :class:`LayerGroup` before layers are counted."""

    kind: LayerKind
    heads: Heads = _NO_HEADS
    window: int | None = None
    state: tuple[StateTensor, ...] = ()
    rotary: bool | None = None
    indexer_head_dim: int | None = None
    compress_ratio: int | None = None


def derive_layers(
    settings: Settings,
    evidence: Mapping[int, BlockEvidence],
    *,
    num_layers: int,
    positions: str | None,
    hidden_size: int | None,
) -> list[Layer]:
    """One record per block: the settings' word for it, the sizes of its tensors, else the stated ones.

    ``evidence`` leaves out blocks that may be known in part only.
    """
    stated = layer_words(settings, num_layers)
    words: Sequence[LayerWord] = stated or ["full"] * num_layers
    shared = shared_flags(settings, num_layers)
    rotary = _rotary(settings, words, positions)
    if family_of(settings.model_type).encoder_only or settings.raw("attention.causal") is False:
        return [Layer("none")] * num_layers
    layers = []
    for index in range(num_layers):
        block = evidence.get(index)
        layer = _layer(settings, index, words[index], block, hidden_size, is_stated=stated is not None)
        if shared[index] or (block is not None and block.mixer == "queries"):
            layer = replace(layer, kind="shared")
        layers.append(_with_rotation(layer, rotary[index]))
    return layers


def _layer(
    settings: Settings,
    index: int,
    word: LayerWord,
    block: BlockEvidence | None,
    hidden_size: int | None,
    *,
    is_stated: bool,
) -> Layer:
    """The tensors decide between attention, latent attention and state; the word tells what they cannot."""
    mixer = block.mixer if block is not None and block.mixer != "unknown" else None
    if mixer == "none" and block is not None and block.weights:
        word = "none"
    elif mixer in ("recurrent", "hybrid", "cross"):
        word = mixer
    elif family_of(settings.model_type).all_recurrent:
        word = "recurrent"
    elif mixer is None and not is_stated and settings.integer("ssm_inner_size"):
        word = "hybrid"  # Falcon-H1: both side by side in every layer
    if word == "none":
        return Layer("none")
    if word == "recurrent":
        return Layer("recurrent", state=recurrent_state(settings, block))
    heads = stated_heads(settings, index, word)
    if settings.raw("compress_ratios") is not None:
        return _compressed(settings, index, heads)
    if word == "cross":
        return Layer("cross", _prove(block, heads, hidden_size, cross=True))
    if _is_latent(settings, mixer):
        return _latent(settings, index, block, hidden_size)
    state = recurrent_state(settings, block) if word == "hybrid" else ()
    kind: LayerKind = "full" if word == "hybrid" else word
    return Layer(
        kind,
        _prove(block, heads, hidden_size),
        window=window_of(settings, word),
        state=state,
        indexer_head_dim=_indexer(settings, index, block),
    )


def _prove(
    block: BlockEvidence | None, heads: Heads, hidden_size: int | None, *, cross: bool = False
) -> Heads:
    if block is None:
        return heads
    if not cross:
        return prove_heads(block, heads, hidden_size)
    own = {role.removeprefix("cross_"): w for role, w in block.roles.items() if role.startswith("cross_")}
    return prove_heads(BlockEvidence(block.weights, own), heads, hidden_size)


def _is_latent(settings: Settings, mixer: str | None) -> bool:
    """By the tensors; without them by the fields. An old GGUF without split projections is not latent."""
    if mixer is not None:
        return mixer == "latent" and not _is_materialised(settings)
    return bool(settings.integer("kv_lora_rank") and settings.integer("qk_rope_head_dim"))


def _is_materialised(settings: Settings) -> bool:
    """llama.cpp caches the latent row only where the ``*_mla`` lengths are stated (llama-hparams.cpp)."""
    return settings.format == "gguf" and not settings.raw("attention.key_length_mla")


def _latent(settings: Settings, index: int, block: BlockEvidence | None, hidden_size: int | None) -> Layer:
    sizes = stated_latent(settings)
    if block is not None:
        sizes = prove_latent(block, sizes, hidden_size)
    heads = Heads(sizes.num_attention_heads, 1, sizes.row, 0)
    return Layer("latent", heads, indexer_head_dim=_indexer(settings, index, block))


def _compressed(settings: Settings, index: int, heads: Heads) -> Layer:
    """DeepSeek-V4: a window of rows that serve as key and value, and one pooled row per some tokens."""
    ratios = settings.raw("compress_ratios")
    ratio = ratios[index] if isinstance(ratios, list) and index < len(ratios) else None
    ratio = ratio if isinstance(ratio, int) and ratio > 0 else None
    has_indexer = ratio == 4  # compressed sparse attention; heavily compressed layers read every row
    return Layer(
        "latent",
        Heads(heads.num_attention_heads, 1, heads.head_dim_k, 0),
        window=settings.integer("sliding_window"),
        indexer_head_dim=settings.integer("index_head_dim") if has_indexer else None,
        compress_ratio=ratio,
    )


def _indexer(settings: Settings, index: int, block: BlockEvidence | None) -> int | None:
    """Size of the keys of a sparse-attention indexer, where this layer has one of its own."""
    size = settings.integer("index_head_dim")
    if block is not None and not any("index" in weight.name for weight in block.weights):
        return None
    types = settings.raw("indexer_types")
    if isinstance(types, list) and index < len(types) and types[index] != "full":
        return None  # it reuses the choice of an earlier layer
    sparse = settings.raw("sparse_attention_config")
    flags = sparse.get("sparse_attention_freq") if isinstance(sparse, Mapping) else None
    if isinstance(flags, list) and index < len(flags) and not flags[index]:
        return None
    return size


def _rotary(settings: Settings, words: Sequence[LayerWord], positions: str | None) -> list[bool | None]:
    """Which layers rotate; None where there is nothing to rotate."""
    if positions not in ("rope", "nope_mixed", None):
        return [False] * len(words)
    listed = rotary_flags(settings, len(words))
    if listed is not None:
        return list(listed)
    nope = family_of(settings.model_type).nope_words if "sliding" in words else frozenset()
    return [word not in nope for word in words]


def _with_rotation(layer: Layer, rotary: bool | None) -> Layer:
    has_heads = layer.kind in ("full", "sliding", "chunked", "latent", "shared")
    return replace(layer, rotary=rotary) if has_heads else layer


def group_layers(layers: Sequence[Layer], *, offset: int = 0) -> tuple[LayerGroup, ...]:
    """Equal layers as one record each, in the order of their first block."""
    indices: dict[Layer, list[int]] = {}
    for index, layer in enumerate(layers):
        indices.setdefault(layer, []).append(index + offset)
    return tuple(_group(layer, where) for layer, where in indices.items())


def _group(layer: Layer, indices: list[int]) -> LayerGroup:
    heads = layer.heads
    return LayerGroup(
        kind=layer.kind,
        count=len(indices),
        indices=tuple(indices),
        num_attention_heads=heads.num_attention_heads,
        num_key_value_heads=heads.num_key_value_heads,
        head_dim_k=heads.head_dim_k,
        head_dim_v=heads.head_dim_v,
        window=layer.window,
        state=layer.state,
        rotary=layer.rotary,
        indexer_head_dim=layer.indexer_head_dim,
        compress_ratio=layer.compress_ratio,
    )
