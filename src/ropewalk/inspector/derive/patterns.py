"""Which kind each layer is, by the fields of the config or the keys of the GGUF.

Every spelling resolves to one word per layer: ``full``, ``sliding``, ``chunked``, ``recurrent``, ``hybrid``
(attention and a recurrent state side by side; ``hybrid_sliding`` within a window), ``cross``, ``none``.
Sizes are not decided here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from ropewalk.inspector.derive.families import family_of
from ropewalk.inspector.derive.settings import Settings
from ropewalk.limits import MAX_LAYERS

LayerWord = Literal["full", "sliding", "chunked", "recurrent", "hybrid", "hybrid_sliding", "cross", "none"]
Words = list[LayerWord]

# Words of layer_types, layers_block_type and block_types, and the letters of hybrid_override_pattern.
_WORDS: dict[str, LayerWord] = {
    "full_attention": "full", "attention": "full", "global": "full", "global_attention": "full",
    "*": "full", "G": "full", "indexed_attention": "full", "deepseek_sparse_attention": "full",
    "compressed_sparse_attention": "full", "heavily_compressed_attention": "full",
    "qwen_sparse_attention": "full", "minimax_m3_sparse": "full", "reference_sliding_attention": "full",
    "hybrid_full": "hybrid",
    "sliding_attention": "sliding", "local": "sliding", "local_attention": "sliding", "L": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "recurrent", "mamba": "recurrent", "mamba2": "recurrent", "conv": "recurrent",
    "recurrent": "recurrent", "short_conv": "recurrent", "kda": "recurrent", "gated_deltanet": "recurrent",
    "M": "recurrent", "m": "recurrent", "g": "hybrid",
    "hybrid": "hybrid", "hybrid_sliding": "hybrid_sliding",
    "cross_attention": "cross",
    "mlp": "none", "moe": "none", "none": "none", "-": "none", "E": "none",
}  # fmt: skip

_LISTS = ("layer_types", "layers_block_type", "hybrid_override_pattern", "block_types")
# Lists of flags: the word of a one and that of a zero.
_FLAGS: dict[str, tuple[LayerWord, LayerWord]] = {
    "hybrid_layer_pattern": ("sliding", "full"),  # MiMo
    "attn_type_list": ("full", "recurrent"),  # MiniMax
}

_GGUF_LLAMA4_CHUNK = 8192  # llama4.cpp:14


def layer_words(settings: Settings, num_layers: int) -> Words | None:
    """One word per layer; None where the settings state no pattern and all layers are alike."""
    if settings.format == "gguf":
        return _gguf_words(settings, num_layers)
    return next(filter(None, (rule(settings, num_layers) for rule in _CONFIG_RULES)), None)


def unknown_words(settings: Settings) -> set[str]:
    """Words of the config's layer lists that have no meaning here; such layers count as full attention."""
    declared = [settings.raw(key) for key in _LISTS]
    return {str(word) for value in declared if isinstance(value, list | str) for word in value} - set(_WORDS)


def shared_flags(settings: Settings, num_layers: int) -> list[bool]:
    """Which layers reuse the keys and values of an earlier one."""
    shared = settings.integer("num_kv_shared_layers") or 0  # Gemma 3n and 4: the last ones
    factor = settings.raw("cla_share_factor")
    every = factor if settings.raw("use_cla") is True and isinstance(factor, int) else 0  # Hunyuan
    owners = settings.raw("kv_source_layers")  # Mistral Large 4
    return [
        i >= num_layers - shared
        or (every > 1 and i % every != 0)
        or (isinstance(owners, list) and i not in owners)
        for i in range(num_layers)
    ]


def cache_passes(settings: Settings, num_layers: int) -> list[int]:
    """How often each block runs per token with a cache of its own: more than once in looped models."""
    whole = settings.raw("total_ut_steps")  # Ouro
    passes = [_times(whole)] * num_layers
    first, last = settings.raw("loop_layer_index_start"), settings.raw("loop_layer_index_end")
    if isinstance(first, int) and isinstance(last, int):  # Inkling 2 loop
        times = _times(settings.raw("loop_num_passes"))
        return [times if first <= i < last else count for i, count in enumerate(passes)]
    total, stack = settings.integer("num_hidden_layers"), settings.raw("num_layers_per_stack")
    if total and isinstance(stack, int) and stack > 0:  # HRM: both stacks, each some times
        return [max(1, total // stack)] * num_layers
    loops, inputs = settings.raw("n_recurrent_loops"), settings.raw("n_input_layers")
    looped = settings.raw("n_recurrent_layers")
    if isinstance(inputs, int) and isinstance(looped, int):  # Dory counts halves of blocks
        times = _times(loops) if settings.raw("recurrent_kv_cache_mode") != "shared" else 1
        return [times if inputs <= 2 * i < inputs + looped else 1 for i in range(num_layers)]
    return passes


def _times(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 < value <= 1024 else 1


def num_blocks(settings: Settings) -> int | None:
    """Blocks that the settings state: HRM states those of one stack apart, Dory counts halves of blocks."""
    total, stack = settings.integer("num_hidden_layers"), settings.raw("num_layers_per_stack")
    if isinstance(stack, int) and not isinstance(stack, bool) and 0 < stack <= MAX_LAYERS:
        return stack
    if total and isinstance(settings.raw("n_recurrent_loops"), int):
        return total // 2
    return total


def window_of(settings: Settings, word: LayerWord, layer: int) -> int | None:
    """Width in tokens of a sliding or chunked layer; None for the others."""
    if word in ("sliding", "hybrid_sliding"):
        return settings.at_layer("sliding_window", layer)
    if word != "chunked":
        return None
    return _GGUF_LLAMA4_CHUNK if settings.format == "gguf" else settings.integer("attention_chunk_size")


def _listed(settings: Settings, num_layers: int) -> Words | None:
    """One word per layer written out: by most, Nemotron-H, MiniMax, MiMo, RecurrentGemma, GPT-Neo."""
    for key in _LISTS:
        declared = settings.raw(key)
        if declared and isinstance(declared, list | str):
            words = [_WORDS.get(str(word), "full") for word in declared]
            if key == "block_types":  # RecurrentGemma: repeated, and its attention is local
                local: Words = ["sliding" if word == "full" else word for word in words]
                return _repeat(local, num_layers, cyclic=True)
            if len(words) == 2 * num_layers and set(words[1::2]) == {"none"}:
                words = words[::2]  # Dory lists both halves of each block
            return _repeat(words, num_layers, cyclic=False)
    for key, (one, zero) in _FLAGS.items():
        declared = settings.raw(key)
        if isinstance(declared, list) and len(declared) >= num_layers:
            return [_choice(bool(flag), one, zero) for flag in declared[:num_layers]]
    return None


def _gpt_neo(settings: Settings, num_layers: int) -> Words | None:
    """``attention_types`` is a list of [words, repetitions]."""
    declared = settings.raw("attention_types")
    if not isinstance(declared, list):
        return None
    words: list[LayerWord] = []
    for entry in declared:
        if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[0], list)):
            return None
        if not isinstance(entry[1], int) or len(words) > num_layers:
            return None
        words += [_WORDS.get(str(word), "full") for word in entry[0]] * min(entry[1], num_layers)
    return words[:num_layers] if len(words) >= num_layers else None


def _attention_among_states(settings: Settings, num_layers: int) -> Words | None:
    """Which layers of a state-space model attend: by period, interval or list."""
    period, offset = settings.raw("attn_layer_period"), settings.raw("attn_layer_offset")
    if isinstance(period, int) and period > 0 and settings.model_type == "zamba":
        offset = offset if isinstance(offset, int) else 4
        return [
            _choice(i == 2 or (i > 2 and (i - 3) % period == offset), "hybrid", "recurrent")
            for i in range(num_layers)
        ]
    if isinstance(period, int) and period > 0:  # Jamba
        return [_choice(i % period == (offset or 0), "full", "recurrent") for i in range(num_layers)]
    for key in ("attn_layer_indices", "full_attn_idxs"):  # Bamba, LFM2
        indices = settings.raw(key)
        if isinstance(indices, list):
            chosen = _numbers(indices)
            return [_choice(i in chosen, "full", "recurrent") for i in range(num_layers)]
    kimi = settings.raw("linear_attn_config")
    if isinstance(kimi, Mapping) and isinstance(kimi.get("full_attn_layers"), list):  # counts from one
        full = _numbers(kimi["full_attn_layers"])
        return [_choice(i + 1 in full, "full", "recurrent") for i in range(num_layers)]
    interval = settings.raw("full_attention_interval")  # Qwen3-Next
    if not isinstance(interval, int):
        interval = settings.raw("layer_group_size")  # Ring and Ling linear, Bailing hybrid
    if isinstance(interval, int) and interval > 0:
        return [_choice((i + 1) % interval == 0, "full", "recurrent") for i in range(num_layers)]
    return None


def _cross(settings: Settings, num_layers: int) -> Words | None:
    """Mllama: some layers attend to the image only."""
    indices = settings.raw("cross_attention_layers")
    if not isinstance(indices, list) or not indices:
        return None
    chosen = _numbers(indices)
    return [_choice(i in chosen, "cross", "full") for i in range(num_layers)]


def _skipped_blocks(settings: Settings, num_layers: int) -> Words | None:
    """Nemotron-NAS: blocks whose attention was cut out or replaced by a linear layer."""
    blocks = settings.raw("block_configs")
    if not isinstance(blocks, list) or len(blocks) < num_layers:
        return None
    return [_choice(_keeps_attention(block), "full", "none") for block in blocks[:num_layers]]


def _keeps_attention(block: Any) -> bool:
    attention = block.get("attention") if isinstance(block, Mapping) else None
    if not isinstance(attention, Mapping):
        return True
    return not (attention.get("no_op") or attention.get("replace_with_linear"))


def _chunked(settings: Settings, num_layers: int) -> Words | None:
    """Llama 4: the layers with rotary positions see a chunk, the others everything."""
    if not settings.integer("attention_chunk_size"):
        return None
    rotary = rotary_flags(settings, num_layers)
    return [_choice(flag, "chunked", "full") for flag in rotary] if rotary else None


def _windows(settings: Settings, num_layers: int) -> Words | None:
    """Sliding layers by a period, a word, a first layer, or all of them."""
    if not settings.integer("sliding_window"):
        return None
    if settings.raw("use_sliding_window") is False:
        return None
    pattern = settings.raw("sliding_window_pattern") or settings.raw("_sliding_window_pattern")
    if isinstance(pattern, str) and pattern:  # EXAONE 4: "LLLG"
        return _repeat([_WORDS.get(letter, "full") for letter in pattern], num_layers, cyclic=True)
    if isinstance(pattern, int) and pattern > 0:  # Gemma 3, Cohere 2
        return _periodic(pattern, num_layers)
    every = settings.raw("global_attn_every_n_layers")
    if isinstance(every, int) and every > 0:
        first = settings.model_type == "modernbert"
        return _periodic(every, num_layers, full_first=first)
    first_window = settings.raw("max_window_layers")
    if isinstance(first_window, int):  # Qwen 2 and 3, dots.llm1
        return [_choice(i >= first_window, "sliding", "full") for i in range(num_layers)]
    return ["sliding"] * num_layers


_CONFIG_RULES: tuple[Callable[[Settings, int], Words | None], ...] = (
    _listed, _gpt_neo, _attention_among_states, _cross, _skipped_blocks, _chunked, _windows,
)  # fmt: skip


def rotary_flags(settings: Settings, num_layers: int) -> list[bool] | None:
    """Which layers rotate their heads, where the config lists it (1: rotary); None where it does not."""
    declared = settings.raw("no_rope_layers")
    if isinstance(declared, list) and len(declared) >= num_layers:
        return [bool(flag) for flag in declared[:num_layers]]
    interval = settings.raw("no_rope_layer_interval")
    if settings.format == "gguf":
        interval = family_of(settings.model_type).nope_every
    if isinstance(interval, int) and interval > 0:
        return [(i + 1) % interval != 0 for i in range(num_layers)]
    pattern = settings.raw("attention.rope_pattern")
    if isinstance(pattern, list) and len(pattern) >= num_layers:
        return [bool(flag) for flag in pattern[:num_layers]]
    return None


def _gguf_words(settings: Settings, num_layers: int) -> Words | None:
    recurrent = _gguf_recurrent(settings, num_layers)
    words: Words = ["recurrent" if flag else "full" for flag in recurrent]
    sliding = _gguf_sliding(settings, num_layers)
    window: LayerWord = "chunked" if settings.model_type == "llama4" else "sliding"
    for layer, flag in enumerate(sliding):
        if flag and words[layer] == "full":
            words[layer] = window
    for layer in range(num_layers):
        if words[layer] != "recurrent" and settings.at_layer("num_key_value_heads", layer) == 0:
            words[layer] = "none"
    return None if set(words) == {"full"} else words


def _gguf_sliding(settings: Settings, num_layers: int) -> list[bool]:
    family = family_of(settings.model_type)
    window = settings.integer("sliding_window")
    if family.gguf_window_off or (not window and (settings.model_type != "llama4" or window == 0)):
        return [False] * num_layers
    pattern = settings.raw("attention.sliding_window_pattern")
    if isinstance(pattern, list) and len(pattern) >= num_layers:
        return [bool(flag) for flag in pattern[:num_layers]]
    period = family.full_every
    if isinstance(pattern, int) and not isinstance(pattern, bool) and pattern > 0:
        period = pattern
    if period is None:
        return [False] * num_layers
    return [word == "sliding" for word in _periodic(period, num_layers, full_first=family.full_first)]


def _gguf_recurrent(settings: Settings, num_layers: int) -> list[bool]:
    """Layers with a state: listed, by interval, or those without KV heads (and without feed-forward)."""
    listed = settings.raw("attention.recurrent_layers")
    if isinstance(listed, list) and len(listed) >= num_layers:
        return [bool(flag) for flag in listed[:num_layers]]
    interval = settings.raw("full_attention_interval")
    if isinstance(interval, int) and interval > 0:
        return [(i + 1) % interval != 0 for i in range(num_layers)]
    if not (settings.integer("ssm_conv_kernel") or settings.integer("conv_l_cache")):
        return [False] * num_layers
    if settings.value("num_key_value_heads") is None:
        return [True] * num_layers  # Mamba
    widths = settings.value("intermediate_size")
    return [
        settings.at_layer("num_key_value_heads", layer) == 0
        and not (isinstance(widths, list) and settings.at_layer("intermediate_size", layer))
        for layer in range(num_layers)
    ]


def _periodic(period: int, num_layers: int, *, full_first: bool = False) -> Words:
    """The last layer of every period is full, or the first."""
    full_at = 0 if full_first else period - 1
    return [_choice(i % period == full_at, "full", "sliding") for i in range(num_layers)]


def _repeat(words: Words, num_layers: int, *, cyclic: bool) -> Words | None:
    if cyclic:
        return [words[i % len(words)] for i in range(num_layers)]
    return words[:num_layers] if len(words) >= num_layers else None


def _numbers(values: list[Any]) -> set[int]:
    return {value for value in values if isinstance(value, int)}


def _choice(flag: bool, yes: LayerWord, no: LayerWord) -> LayerWord:
    return yes if flag else no


def shared_transformers(settings: Settings) -> int:
    """How many different transformers the blocks of a Zamba share; 0 where none are."""
    number = settings.raw("num_mem_blocks")
    if settings.model_type == "zamba":
        return 1
    is_number = isinstance(number, int) and not isinstance(number, bool) and number > 0
    return number if settings.model_type == "zamba2" and is_number else 0
