"""The one table of families: what neither the fields of a config nor the tensors tell.

A row is about the model types of one family (and the architecture names of its GGUF files). Most models
need none. Sources: transformers 5.24 models/*, vLLM 0.33 model_executor/models, llama.cpp b11434 src/models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ropewalk.inspector.derive.settings import Settings
from ropewalk.inspector.layer_kinds import StateTensor

PositionRule = Callable[[Settings], str | None]
StateRule = Callable[[Settings], tuple[StateTensor, ...] | None]


@dataclass(frozen=True, slots=True)
class Family:
    """A family by its model types; every other column is empty where fields and tensors tell.

    ``why`` is the reason for the row, with its source. ``positions`` names the position embedding where it
    is not rotary, or None where it is. ``nope_words`` are the words of layers (see ``patterns``) that do not
    rotate in a model that has sliding layers too. ``state`` gives the state of a recurrent layer.
    ``encoder_only`` models keep no cache; ``all_recurrent`` ones have no attention. ``caches_per_layer``
    above one: every layer keeps so many times what its group says, and the groups are repeated.
    ``normalisation`` names the norm where the key of its epsilon misleads. ``rope_theta`` is the base that
    the class assumes where it is not the usual 10,000; ``partial_rotary`` the share of each head that it
    rotates; ``sliding_theta`` the base of sliding layers that turn unscaled however flat the config is
    written (0: that of the full ones), ``gguf_sliding_theta`` llama.cpp's. ``full_every`` is the period of
    the full layers where a GGUF names none, ``full_first`` whether they lead it; ``nope_every`` the period
    of layers that do not rotate; ``gguf_window_off`` says that llama.cpp applies no window.
    ``counts_both_halves``: ``intermediate_size`` is that of gate and up-projection together.
    ``has_two_tables``: encoder and decoder have token embeddings of their own, tied to no other.
    ``factor_included``: ``max_position_embeddings`` has the linear factor in it already.
    """

    model_types: tuple[str, ...]
    why: str = ""
    positions: PositionRule | None = None
    nope_words: frozenset[str] = frozenset()
    state: StateRule | None = None
    encoder_only: bool = False
    all_recurrent: bool = False
    caches_per_layer: int = 1
    normalisation: str | None = None
    rope_theta: float | None = None
    partial_rotary: float | None = None
    sliding_theta: float | None = None
    gguf_sliding_theta: float | None = None
    full_every: int | None = None
    full_first: bool = False
    nope_every: int | None = None
    gguf_window_off: bool = False
    factor_included: bool = False
    counts_both_halves: bool = False
    has_two_tables: bool = False


def family_of(model_type: str | None) -> Family:
    """The family of a model type; one that says nothing where there is none."""
    return _BY_TYPE.get(model_type or "", _PLAIN)


def is_family(model_type: str | None) -> bool:
    """Whether a row is about this model type."""
    return model_type in _BY_TYPE


def is_encoder(settings: Settings) -> bool:
    """Whether the model keeps no cache; its class may be used as a decoder, and the config then says so."""
    return family_of(settings.model_type).encoder_only and settings.raw("is_decoder") is not True


def _always(positions: str) -> PositionRule:
    return lambda settings: positions


def _baichuan_positions(settings: Settings) -> str | None:
    return None if settings.integer("hidden_size") in (4096, None) else "alibi"


def _granite_positions(settings: Settings) -> str | None:
    if settings.format == "gguf":  # granite-hybrid.cpp takes this key as the switch, on by default
        return "none" if settings.raw("rope.scaling.finetuned") is False else None
    return None if settings.raw("position_embedding_type") == "rope" else "none"


def _lightning_state(settings: Settings) -> tuple[StateTensor, ...] | None:
    heads, size = settings.integer("num_attention_heads"), settings.integer("head_dim")
    hidden = settings.integer("hidden_size")
    if heads and not size and hidden:
        size = hidden // heads
    return (StateTensor("linear", (heads, size, size)),) if heads and size else None


def _rwkv_state(settings: Settings) -> tuple[StateTensor, ...] | None:
    """llama-hparams.cpp n_embd_r and n_embd_s: ``token_shift_count`` x hidden and hidden x head size.

    RWKV 4 has no heads: it keeps numerator, denominator and maximum per channel.
    """
    hidden = settings.integer("hidden_size")
    size = settings.integer("head_dim") or settings.raw("wkv.head_size")
    if not hidden:
        return None
    if not isinstance(size, int) or not size or hidden % size:
        if settings.model_type != "rwkv":
            return None
        return (StateTensor("shift", (2, hidden)), StateTensor("wkv", (3, hidden)))
    shifts = settings.raw("token_shift_count")
    rows = shifts if isinstance(shifts, int) and 0 < shifts <= 2 else 2
    return (StateTensor("shift", (rows, hidden)), StateTensor("wkv", (hidden // size, size, size)))


def _zamba2_positions(settings: Settings) -> str | None:
    return None if settings.raw("use_mem_rope") is True else "none"


def _xlstm_state(settings: Settings) -> tuple[StateTensor, ...] | None:
    """Per head a matrix of keys x values, its normaliser and its maximum."""
    hidden, heads = settings.integer("hidden_size"), settings.integer("num_attention_heads")
    factors = [settings.raw("qk_dim_factor"), settings.raw("v_dim_factor")]
    if not hidden or not heads or not all(isinstance(f, int | float) and 0 < f <= 64 for f in factors):
        return None
    keys, values = (int(hidden * factor) // heads for factor in factors)
    return (
        StateTensor("matrix", (heads, keys, values)),
        StateTensor("normaliser", (heads, keys)),
        StateTensor("maximum", (heads, 1)),
    )


_FULL = frozenset({"full"})

TABLE: tuple[Family, ...] = (
    Family(
        ("afmoe",), "the full-attention layers have no positions (modeling_afmoe.py)",
        nope_words=_FULL, full_every=4,
    ),
    Family(
        ("baichuan",), "7B models rotate, 13B ones use ALiBi; only the width tells (vLLM, baichuan.py)",
        positions=_baichuan_positions,
    ),
    Family(
        ("bert", "roberta", "xlm-roberta", "camembert", "electra", "albert", "distilbert", "mpnet"),
        "encoders: every token sees every other, nothing is kept",
        positions=_always("learned"), encoder_only=True,
    ),
    Family(
        ("modernbert", "modern-bert"), "encoders; sliding layers turn at a base of their own",
        encoder_only=True, normalisation="LayerNorm", rope_theta=1.6e5, sliding_theta=1e4,
        full_every=3, full_first=True,
    ),
    Family(
        ("modernbert_decoder",), "sliding layers turn at a base of their own",
        rope_theta=1.6e5, sliding_theta=1e4,
    ),
    Family(
        ("nomic_bert", "nomic-bert"), "encoders with rotary positions",
        encoder_only=True, normalisation="LayerNorm",
    ),
    Family(("eurobert",), "encoders with rotary positions", encoder_only=True),
    Family(("bloom",), "ALiBi, which its config does not mention", positions=_always("alibi")),
    Family(
        ("cohere2",), "the full-attention layers have no positions (modeling_cohere2.py)",
        nope_words=_FULL, full_every=4,
    ),
    Family(("cohere2moe",), "period of the full layers (llama.cpp)", full_every=4, full_first=True),
    Family(
        ("exaone4", "exaone_moe", "exaone-moe"),
        "where some layers slide, the full-attention ones have no positions (modeling_exaone4.py:234)",
        nope_words=_FULL, full_every=4,
    ),
    Family(("gemma2",), "period of the full layers (llama.cpp)", full_every=2),
    Family(
        ("gemma3", "gemma3_text"), "sliding layers turn unscaled at a base of their own",
        rope_theta=1e6, sliding_theta=1e4, gguf_sliding_theta=1e4, full_every=6, factor_included=True,
    ),
    Family(
        ("gemma3n", "gemma3n_text"), "sliding layers turn unscaled at a base of their own",
        rope_theta=1e6, sliding_theta=1e4, gguf_sliding_theta=1e4, full_every=5, factor_included=True,
    ),
    Family(("gemma-embedding",), "period of the full layers (llama.cpp)", full_every=6),
    Family(
        ("gpt2", "gpt_bigcode", "starcoder", "gpt_neo", "opt", "bart", "mbart", "pegasus", "pegasus_x",
         "blenderbot", "blenderbot-small", "whisper", "git", "openai-gpt", "xlm", "marian", "led",
         "bigbird_pegasus", "big_bird", "biogpt", "bert-generation", "blip", "blip_text_model", "mvp",
         "plbart", "prophetnet", "trocr", "speecht5", "reformer", "gpt-sw3", "decision_transformer"),
        "a learned table of positions, which no key of the config names",
        positions=_always("learned"),
    ),
    Family(
        ("gpt_oss", "gpt-oss"), "base of the class; period of the full layers",
        rope_theta=1.5e5, full_every=2,
    ),
    Family(
        ("granitemoehybrid", "granitehybrid"),
        "attention without positions unless the config asks for rope (modeling_granitemoehybrid.py)",
        positions=_granite_positions,
    ),
    Family(
        ("inkling", "inkling_mm_model", "inkling_text", "inkling2", "inkling2_text", "inkling2_loop",
         "inkling2_loop_text"),
        "a learned bias per distance up to rel_extent (modeling_inkling.py)", positions=_always("relative"),
    ),
    Family(("jamba",), "attention without positions: the states carry the order", positions=_always("none")),
    Family(
        ("kimi_linear", "kimi-linear"), "latent attention without positions (modeling_kimi_linear.py)",
        positions=_always("none"),
    ),
    Family(("laguna",), "period of the full layers (llama.cpp)", full_every=4, full_first=True),
    Family(("llama4",), "period of the full and NoPE layers (llama.cpp)", full_every=4, nope_every=4),
    Family(("llama4_text",), "base of the class", rope_theta=5e5),
    Family(
        ("longcat_flash",),
        "two latent attentions per layer, each with its own cache (modeling_longcat_flash.py)",
        caches_per_layer=2, rope_theta=1e7,
    ),
    Family(
        ("mamba", "mamba2", "falcon_mamba", "falcon-mamba"),
        "state-space layers only; Mamba 2 names its state's heads as if they were attention's",
        positions=_always("none"), all_recurrent=True, normalisation="RMSNorm",
    ),
    Family(("mellum",), "period of the full layers (llama.cpp)", full_every=4),
    Family(
        ("minimax", "minimax_text_01", "minimax_m1", "minimax-01"),
        "lightning attention keeps one square matrix per head (modeling_minimax.py)",
        state=_lightning_state, rope_theta=1e6,
    ),
    Family(
        ("nemotron_h", "nemotron_h_moe", "nemotron_3"),
        "attention without positions, though the config may state a rotary share",
        positions=_always("none"), normalisation="RMSNorm",
    ),
    Family(("olmo2",), "period of the full layers (llama.cpp)", full_every=4),
    Family(("olmo3",), "sliding layers turn unscaled", rope_theta=5e5, sliding_theta=0),
    Family(("phi3",), "llama.cpp applies no window (phi3.cpp:18-28)", gguf_window_off=True),
    Family(("plamo3",), "period of the full layers (llama.cpp)", full_every=8),
    Family(
        ("recurrent_gemma",), "half of each head rotates; the feed-forward width counts both of its halves",
        partial_rotary=0.5, counts_both_halves=True,
    ),
    Family(
        ("rwkv", "rwkv5", "rwkv6", "rwkv7", "rwkv6qwen2", "arwkv7"),
        "the last token of each half of the block and one square matrix per head",
        positions=_always("none"), state=_rwkv_state, all_recurrent=True,
    ),
    Family(
        ("zamba",), "attention without positions beside the states (modeling_zamba.py)",
        positions=_always("none"),
    ),
    Family(
        ("zamba2",), "rotates only where use_mem_rope says so (modeling_zamba2.py)",
        positions=_zamba2_positions,
    ),
    Family(
        ("xlstm",), "a matrix, a vector and a number per head instead of a cache (modeling_xlstm.py)",
        positions=_always("none"), state=_xlstm_state, all_recurrent=True, normalisation="RMSNorm",
    ),
    Family(
        ("xglm", "m2m_100", "nllb-moe", "nllb_moe", "ctrl", "kosmos-2", "kosmos_2_text_model", "kosmos-2.5",
         "kosmos_2_5_text_model", "fsmt", "musicgen", "musicgen_melody", "musicgen_decoder", "speech_to_text",
         "seamless_m4t", "seamless_m4t_v2"),
        "a fixed table of sines, which no key of the config names", positions=_always("sinusoidal"),
    ),
    Family(
        ("switch_transformers", "longt5", "udop", "pop2piano", "pix2struct", "pix2struct_text_model", "xlnet",
         "cpmant"),
        "a learned bias per distance instead of positions", positions=_always("relative"),
    ),
    Family(("smallthinker",), "period of the full layers (llama.cpp)", full_every=4, full_first=True),
    Family(("smollm3",), "base of the class; period of the NoPE layers", rope_theta=2e6, nope_every=4),
    Family(
        ("t5", "mt5", "umt5"), "a learned bias per distance instead of positions",
        positions=_always("relative"), normalisation="RMSNorm",
    ),
    Family(
        ("t5gemma",), "encoder and decoder embed tokens each on their own (modeling_t5gemma.py)",
        has_two_tables=True,
    ),
    *(
        Family((name,), "base of the class", rope_theta=theta)
        for name, theta in {
            "cwm": 1e6, "ernie4_5": 5e5, "ernie4_5_moe": 5e5, "exaone": 5e5, "flex_olmo": 5e5, "lfm2": 1e6,
            "lfm3": 1e6, "minimax_m2": 5e6, "mixtral": 1e6, "mllama_text_model": 5e5, "phimoe": 1e6,
            "qwen2_vl_text": 1e6, "qwen2_5_vl_text": 1e6, "qwen3_vl_text": 5e5, "qwen3_vl_moe_text": 5e5,
        }.items()
    ),
    *(  # the ``setdefault`` calls of the classes, and ChatGLM's own code (half of kv_channels)
        Family((name,), "share of each head that the class rotates", partial_rotary=share)
        for name, share in {
            "bamba": 0.5, "chatglm": 0.5, "glm": 0.5, "glm4": 0.5, "glm4_moe": 0.5, "gpt_neox": 0.25,
            "nemotron": 0.5, "persimmon": 0.5, "phi": 0.5, "qwen3_5_text": 0.25, "qwen3_5_moe_text": 0.25,
            "qwen3_next": 0.25, "stablelm": 0.25,
        }.items()
    ),
)  # fmt: skip

_PLAIN = Family(())


def _by_type(table: tuple[Family, ...]) -> dict[str, Family]:
    """The rows by model type; each type in one row."""
    found: dict[str, Family] = {}
    for family in table:
        for name in family.model_types:
            if name in found:
                raise ValueError(f"two rows are about {name}")
            found[name] = family
    return found


_BY_TYPE = _by_type(TABLE)
