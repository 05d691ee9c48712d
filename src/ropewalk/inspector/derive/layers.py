"""One record per distinct kind of layer: what each keeps for the tokens it has seen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ropewalk.inspector.derive.evidence import BlockEvidence
from ropewalk.inspector.derive.families import family_of, is_encoder
from ropewalk.inspector.derive.heads import (
    Heads,
    declared_heads,
    declared_latent,
    is_doubtful,
    prove_heads,
    prove_latent,
)
from ropewalk.inspector.derive.patterns import (
    LayerWord,
    layer_words,
    rotary_flags,
    shared_flags,
    shared_transformers,
    window_of,
)
from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.derive.states import recurrent_state
from ropewalk.inspector.layer_kinds import (
    AnyLayer,
    ChunkedAttention,
    CrossAttention,
    FullAttention,
    LatentAttention,
    NoCache,
    Recurrent,
    SharedCache,
    SlidingWindow,
)


def derive_layers(
    settings: Settings,
    evidence: Mapping[int, BlockEvidence],
    *,
    num_layers: int,
    positions: str | None,
    hidden_size: int | None,
) -> list[AnyLayer]:
    """One record per block: the settings' word for it, the sizes of its tensors, else the stated ones.

    ``evidence`` leaves out blocks that may be known in part only.
    """
    declared = layer_words(settings, num_layers)
    words: Sequence[LayerWord] = declared or ["full"] * num_layers
    shared = shared_flags(settings, num_layers)
    rotary = _rotary(settings, words, positions)
    if is_encoder(settings) or settings.raw("attention.causal") is False:
        return [NoCache()] * num_layers
    layers: list[AnyLayer] = []
    for index in range(num_layers):
        block = evidence.get(index)
        layer = _layer(settings, index, words[index], block, hidden_size, is_declared=declared is not None)
        if shared[index] or (block is not None and block.mixer == "queries"):
            layer = _shared(layer)
        layers.append(_with_rotation(layer, rotary[index]))
    return layers


def _layer(
    settings: Settings,
    index: int,
    word: LayerWord,
    block: BlockEvidence | None,
    hidden_size: int | None,
    *,
    is_declared: bool,
) -> AnyLayer:
    """The tensors decide between attention, latent attention and state; the word tells what they cannot."""
    mixer = block.mixer if block is not None and block.mixer != "unknown" else None
    if mixer == "none" and block is not None and block.weights:
        word = "none"
    elif mixer == "hybrid" and is_declared and word in ("recurrent", "hybrid", "hybrid_sliding"):
        pass  # which of them, only the settings tell: a delta net has queries and keys as well
    elif mixer == "recurrent" and is_declared and word == "hybrid" and shared_transformers(settings):
        pass  # a transformer that several blocks share is stored in the first of them alone (Zamba)
    elif mixer in ("recurrent", "hybrid", "cross"):
        word = mixer
    elif family_of(settings.model_type).all_recurrent:
        word = "recurrent"
    elif mixer is None and not is_declared and settings.integer("ssm_inner_size"):
        word = "hybrid"  # Falcon-H1: both side by side in every layer
    if word == "none":
        return NoCache()
    if word == "recurrent":
        return Recurrent(state=recurrent_state(settings, block))
    heads = declared_heads(settings, index, word)
    if _compresses(settings):
        return _compressed(settings, index, heads)
    if word == "cross":
        return CrossAttention((), *_prove(block, heads, hidden_size, cross=True).sizes)
    if _is_latent(settings, mixer):
        return _latent(settings, index, block, hidden_size)
    heads = _prove(block, heads, hidden_size)
    sizes = heads.sizes
    state = recurrent_state(settings, block, heads) if word.startswith("hybrid") else ()
    indexer = _indexer(settings, index, block)
    window = window_of(settings, word, index)
    if word in ("sliding", "hybrid_sliding"):
        return SlidingWindow((), *sizes, indexer_head_dim=indexer, state=state, window=window)
    if word == "chunked":
        return ChunkedAttention((), *sizes, indexer_head_dim=indexer, state=state, window=window)
    return FullAttention((), *sizes, indexer_head_dim=indexer, state=state)


def _shared(layer: AnyLayer) -> AnyLayer:
    """The same without a cache of its own."""
    return SharedCache(
        (), layer.num_attention_heads, layer.num_key_value_heads, layer.head_dim_k, layer.head_dim_v,
        window=layer.window,
    )  # fmt: skip


def _prove(
    block: BlockEvidence | None, heads: Heads, hidden_size: int | None, *, cross: bool = False
) -> Heads:
    if block is None:
        return heads
    if not cross:
        proven = prove_heads(block, heads, hidden_size)
        return heads if is_doubtful(block, heads, proven) else proven
    own = {role.removeprefix("cross_"): w for role, w in block.roles.items() if role.startswith("cross_")}
    return prove_heads(BlockEvidence(block.weights, own), heads, hidden_size)


def _is_latent(settings: Settings, mixer: str | None) -> bool:
    """By the tensors; without them by the fields. An old GGUF without split projections is not latent."""
    if mixer is not None:
        return mixer == "latent" and not _is_materialised(settings)
    return bool(settings.integer("kv_lora_rank")) and settings.integer("qk_rope_head_dim") is not None


def _is_materialised(settings: Settings) -> bool:
    """llama.cpp caches the latent row only where the ``*_mla`` lengths are stated (llama-hparams.cpp)."""
    return settings.format == "gguf" and not settings.raw("attention.key_length_mla")


def _latent(settings: Settings, index: int, block: BlockEvidence | None, hidden_size: int | None) -> AnyLayer:
    sizes = declared_latent(settings)
    if block is not None:
        sizes = prove_latent(block, sizes, hidden_size)
    listed = settings.raw("no_rope_layers")
    if isinstance(listed, list) and index < len(listed) and not listed[index]:
        sizes = replace(sizes, qk_rope_head_dim=0)  # Mistral Large 4: without rotation no rotated part
    return LatentAttention(
        (), sizes.num_attention_heads, sizes.row, indexer_head_dim=_indexer(settings, index, block)
    )


def _compresses(settings: Settings) -> bool:
    return settings.raw("compress_ratios") is not None or isinstance(settings.raw("compress_rates"), Mapping)


def _compressed(settings: Settings, index: int, heads: Heads) -> AnyLayer:
    """DeepSeek-V4: a window of rows that serve as key and value, and one pooled row per some tokens.

    The ratio stands in a list (0: the window alone), or beside the type of the layer (transformers 5.15 and
    later). Where ``kv_source_layer_ids`` is stated (V4.1) only those layers own pooled rows.
    """
    ratio = _compress_ratio(settings, index)
    owners, indexers = (settings.raw(key) for key in ("kv_source_layer_ids", "index_source_layer_ids"))
    # compressed sparse attention; heavily compressed layers read every row
    has_indexer = index in indexers if isinstance(indexers, list) else ratio == 4
    if isinstance(owners, list) and index not in owners:
        ratio = None
    return LatentAttention(
        (),
        heads.num_attention_heads,
        heads.head_dim_k,
        window=settings.integer("sliding_window"),
        indexer_head_dim=settings.integer("index_head_dim") if has_indexer else None,
        compress_ratio=ratio,
    )


def _compress_ratio(settings: Settings, index: int) -> int | None:
    ratios, rates = settings.raw("compress_ratios"), settings.raw("compress_rates")
    if isinstance(rates, Mapping):
        words = settings.raw("layer_types")
        word = words[index] if isinstance(words, list) and index < len(words) else None
        ratio = rates.get(word) if isinstance(word, str) else None
    else:
        ratio = ratios[index] if isinstance(ratios, list) and index < len(ratios) else None
    return ratio if isinstance(ratio, int) and ratio > 0 else None


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
    nope = family_of(settings.model_type).nope_words if "sliding" in words else frozenset[str]()
    return [word not in nope for word in words]


def _with_rotation(layer: AnyLayer, rotary: bool | None) -> AnyLayer:
    if isinstance(layer, NoCache | Recurrent | CrossAttention):
        return layer
    return replace(layer, rotary=rotary)


def group_layers(layers: Sequence[AnyLayer], *, offset: int = 0) -> tuple[AnyLayer, ...]:
    """Equal layers as one record each, in the order of their first block."""
    indices: dict[AnyLayer, list[int]] = {}
    for index, layer in enumerate(layers):
        indices.setdefault(layer, []).append(index + offset)
    return tuple(replace(layer, indices=tuple(where)) for layer, where in indices.items())


def group_passes(layers: Sequence[AnyLayer], passes: Sequence[int]) -> tuple[AnyLayer, ...]:
    """The groups of a looped model: those of its blocks, once for every pass that keeps a cache."""
    groups: tuple[AnyLayer, ...] = ()
    for number in range(max(passes, default=1)):
        again = {index for index, times in enumerate(passes) if times > number}
        for group in group_layers(layers):
            kept = tuple(index for index in group.indices if index in again)
            groups += (replace(group, indices=kept),) if kept else ()
    return groups


def cross_layers(layers: Sequence[AnyLayer]) -> list[AnyLayer]:
    """What the decoder's blocks keep of the encoder: heads as their own."""
    return [
        CrossAttention(
            (), layer.num_attention_heads, layer.num_key_value_heads, layer.head_dim_k, layer.head_dim_v
        )
        for layer in layers
    ]
