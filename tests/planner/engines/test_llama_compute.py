"""The CPU compute buffer against real servers: b11434 (printed to 52 B), b11549 (to 0.005 MiB)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.planner.models import attention, deepseek_v3, every, gemma3_270m, inspection, smollm2

from ropewalk.inspector.layer_kinds import LatentAttention, Recurrent, StateTensor
from ropewalk.planner.engines.llama_compute import Bounds, compute_buffer, graph_of
from ropewalk.planner.engines.llama_memory import CACHE_TYPES
from ropewalk.planner.engines.llama_slots import resolve_slots
from ropewalk.planner.model import shape_of
from ropewalk.planner.shape import ModelShape
from ropewalk.units import MIB

SMOLLM2, GEMMA3 = shape_of(smollm2()), shape_of(gemma3_270m())
PRINTED = 256  # bytes: four decimals of a MiB, and the rounding of three slots


def buffer(
    shape: ModelShape,
    n_ctx: int,
    *,
    flash: bool = True,
    num_slots: int = 1,
    unified: bool = False,
    ubatch: int | None = None,
    types: tuple[str, str] = ("f16", "f16"),
) -> Bounds:
    slots = resolve_slots(n_ctx, num_slots=num_slots, unified=unified, ubatch=ubatch)
    key, value = (CACHE_TYPES[name] for name in types)
    return compute_buffer(graph_of(shape, key, value), slots, flash=flash)


@pytest.mark.parametrize(
    ("n_ctx", "num_slots", "unified", "ubatch", "types", "printed"),
    [
        (8192, 1, False, None, ("f16", "f16"), 23_742_487),
        (8192, 4, False, None, ("f16", "f16"), 17_451_031),
        (8192, 4, True, None, ("f16", "f16"), 23_742_487),
        (8192, 3, False, None, ("f16", "f16"), 18_273_219),
        (32_768, 1, False, None, ("f16", "f16"), 48_908_311),
        (16_384, 1, False, 128, ("f16", "f16"), 8_032_826),
        (8192, 1, False, 2048, ("f16", "f16"), 94_969_843),
        (8192, 1, False, None, ("q8_0", "q8_0"), 23_775_307),
        (8192, 1, False, None, ("q8_0", "f16"), 23_758_845),
    ],
)
def test_one_cache(
    n_ctx: int, num_slots: int, unified: bool, ubatch: int | None, types: tuple[str, str], printed: int
) -> None:
    found = buffer(SMOLLM2, n_ctx, num_slots=num_slots, unified=unified, ubatch=ubatch, types=types)
    assert found.bytes == pytest.approx(printed, abs=PRINTED)
    assert found.low == found.high


@pytest.mark.parametrize(
    ("n_ctx", "num_slots", "types", "printed"),
    [
        (512, 1, ("f16", "f16"), 20_213_819),
        (8192, 1, ("f16", "f16"), 28_602_427),
        (8192, 3, ("f16", "f16"), 23_142_701),
        (32_768, 4, ("f16", "f16"), 28_602_427),
        (8192, 1, ("q4_0", "q4_0"), 29_159_431),
    ],
)
def test_two_caches(n_ctx: int, num_slots: int, types: tuple[str, str], printed: int) -> None:
    assert buffer(GEMMA3, n_ctx, num_slots=num_slots, types=types).bytes == pytest.approx(
        printed, abs=PRINTED
    )


@pytest.mark.parametrize(
    ("n_ctx", "num_slots", "types", "printed"),
    [
        (512, 1, ("f16", "f16"), 18_939_904),
        (8192, 1, ("f16", "f16"), 175_650_845),
        (16_384, 4, ("f16", "f16"), 91_764_765),
        (32_768, 1, ("f16", "f16"), 678_967_325),
        (8192, 1, ("q8_0", "f16"), 174_487_555),
    ],
)
def test_one_cache_without_flash_attention(
    n_ctx: int, num_slots: int, types: tuple[str, str], printed: int
) -> None:
    found = buffer(SMOLLM2, n_ctx, flash=False, num_slots=num_slots, types=types)
    if n_ctx > 512:  # the shortest was printed with two decimals only
        assert found.bytes == pytest.approx(printed, abs=PRINTED)
    assert found.low <= found.bytes < found.high


@pytest.mark.parametrize(
    ("n_ctx", "num_slots", "ubatch", "printed"),
    [
        (512, 1, None, 23_351_368),
        (512, 4, None, 22_302_792),
        (8192, 1, None, 98_848_840),
        (8192, 4, None, 35_934_280),
        (8192, 1, 1024, 199_794_727),
        (32_768, 1, None, 350_507_080),
    ],
)
def test_two_caches_without_flash_attention(
    n_ctx: int, num_slots: int, ubatch: int | None, printed: int
) -> None:
    found = buffer(GEMMA3, n_ctx, flash=False, num_slots=num_slots, ubatch=ubatch)
    assert found.low <= printed <= found.high
    assert found.bytes == pytest.approx(printed, rel=0.016)


def experts(
    *, hidden: int, inner: int, used: int, heads: int = 32, kv: int = 4, dim: int = 128
) -> ModelShape:
    """Two layers of a mixture, as in Qwen3-MoE."""
    return shape_of(
        inspection(
            (attention(range(2), kv=kv, dim=dim, heads=heads),),
            hidden=hidden,
            inner=inner,
            vocab=64,
            heads=heads,
            num_experts=64,
            num_experts_per_tok=used,
            moe_intermediate_size=inner,
        )
    )


@pytest.mark.parametrize(
    ("shape", "mib"),
    [
        (experts(hidden=2048, inner=1536, used=8), 94.02),
        (experts(hidden=1024, inner=768, used=8), 48.02),
        (experts(hidden=4096, inner=2048, used=6), 114.02),
        (experts(hidden=2880, inner=2880, used=4, heads=64, kv=8, dim=64), 97.64),
        (experts(hidden=2048, inner=768, used=8), 90.02),
        (experts(hidden=2048, inner=768, used=4), 56.02),
        (experts(hidden=2048, inner=768, used=2), 38.02),
    ],
)
def test_experts_within_bounds(shape: ModelShape, mib: float) -> None:
    found = buffer(shape, 2048)
    assert found.low - 0.01 * MIB <= mib * MIB <= found.high + 0.01 * MIB
    if shape.hidden_size <= 2 * shape.expert_len:
        assert found.bytes == pytest.approx(mib * MIB, abs=0.01 * MIB)


@pytest.mark.parametrize(
    ("heads", "flash", "n_ctx", "mib"),
    [
        (128, True, 2048, 408.01),
        (128, True, 8192, 414.01),
        (64, True, 2048, 232.01),
        (128, False, 2048, 922.01),
        (128, False, 8192, 2470.01),
        (64, False, 8192, 1270.01),
    ],
)
def test_latent_attention_within_bounds(heads: int, flash: bool, n_ctx: int, mib: float) -> None:
    group = LatentAttention(tuple(range(61)), heads, 576)
    shape = replace(shape_of(deepseek_v3()), layers=(group,), num_attention_heads=heads)
    found = buffer(shape, n_ctx, flash=flash)
    assert found.low <= mib * MIB <= found.high + 0.005 * MIB
    if heads == 128:  # with fewer heads the experts' upper bound is what counts
        assert found.bytes == pytest.approx(mib * MIB, abs=0.005 * MIB)


@pytest.mark.parametrize(
    ("latent", "rotary", "nope", "heads", "hidden", "numbers"),
    [
        (512, 64, 128, 128, 7168, 207_872),
        (512, 64, 192, 128, 7168, 216_064),
        (512, 64, 128, 64, 7168, 117_760),
        (512, 64, 128, 40, 5120, 76_800),
        (512, 64, 128, 16, 7168, 53_248),
        (256, 32, 64, 128, 5120, 107_520),
        (256, 32, 64, 16, 5120, 29_696),
        (128, 64, 128, 16, 512, 8_704),
        (512, 64, 64, 16, 512, 23_040),
    ],
)
def test_latent_attention_of_other_widths(
    latent: int, rotary: int, nope: int, heads: int, hidden: int, numbers: int
) -> None:
    """llama.cpp b11549, asked without allocating; three layers, a feed-forward of 64, 4,096 cells."""
    group = LatentAttention((0, 1, 2), heads, latent + rotary)
    model = inspection(
        (group,), hidden=hidden, inner=64, vocab=64, heads=heads, kv_lora_rank=latent,
        qk_nope_head_dim=nope, qk_rope_head_dim=rotary, v_head_dim=nope,
    )  # fmt: skip
    said = 2 * 512 * 4096 + 512 * (4 * numbers + 20) + 32
    found = buffer(shape_of(model), 4096)
    assert found.low <= said <= found.high
    if (latent, heads) == (512, 128):
        assert found.high == said


def test_latent_scores_are_not_divided_among_devices() -> None:
    """128 heads, 163,840 tokens, ubatch 512: 40 GiB of scores (ikawrakow/ik_llama.cpp#237)."""
    scores = 163_840 * 512 * 128 * 4
    with_scores = buffer(shape_of(deepseek_v3()), 163_840, flash=False)
    without = buffer(shape_of(deepseek_v3()), 163_840)
    assert scores == 42_949_672_960
    assert with_scores.bytes - without.bytes == pytest.approx(scores, rel=0.01)
    small = buffer(shape_of(deepseek_v3()), 163_840, flash=False, ubatch=128)
    assert small.bytes == pytest.approx(with_scores.bytes / 4, rel=0.001)


def delta_net(*, value_heads: int) -> ModelShape:
    """Eight layers of Qwen3.5: every fourth attends."""
    full, rest = every(8, 4)
    state = (
        StateTensor("conv", (3, 4096 + 128 * value_heads)),
        StateTensor("ssm", (value_heads, 128, 128)),
    )
    layers = (
        attention(full, kv=2, dim=256, heads=16),
        Recurrent(tuple(rest), state=state),
    )
    return shape_of(inspection(layers, hidden=2048, inner=6144, vocab=64, heads=16))


@pytest.mark.parametrize(
    ("value_heads", "flash", "mib"),
    [(32, True, 58.02), (48, True, 65.02), (32, False, 114.02), (48, False, 114.02)],
)
def test_delta_nets_within_bounds(value_heads: int, flash: bool, mib: float) -> None:
    found = buffer(delta_net(value_heads=value_heads), 2048, flash=flash)
    assert found.low - 0.02 * MIB <= mib * MIB <= found.high + 0.005 * MIB


@pytest.mark.parametrize(
    ("hidden", "inner", "num_slots", "mib"),
    [(2048, 4096, 1, 74.27), (2048, 4096, 4, 80.41), (1024, 2048, 1, 43.16), (1024, 2048, 4, 42.26)],
)
def test_mamba2_within_bounds(hidden: int, inner: int, num_slots: int, mib: float) -> None:
    state = (StateTensor("conv", (3, inner + 2048)), StateTensor("ssm", (inner // 64, 64, 128)))
    layers = (Recurrent(tuple(range(4)), state=state),)
    shape = shape_of(inspection(layers, hidden=hidden, inner=0, vocab=64, heads=0))
    found = buffer(shape, 2048, num_slots=num_slots)
    assert found.low <= mib * MIB <= found.high


# The engine's own figure for full-size shapes at one slot (b11549), in MiB, less masks of one or two caches:
# hidden, inner, and how the block is built.
@pytest.mark.parametrize(
    ("hidden", "inner", "built", "mib"),
    [
        (4544, 18176, {"gated": False, "parallel_block": True}, 88.75),  # Falcon-7B
        (2560, 10240, {"gated": False, "parallel_block": True}, 45.0),  # Phi-2
        (3072, 12288, {"gated": False}, 54.0),  # StarCoder2-3B
        (1600, 6400, {"gated": False}, 28.13),  # GPT-2 XL
        (1536, 12288, {"per_layer_len": 35 * 256}, 122.0),  # Gemma 4 E2B
        (256, 512, {"per_layer_len": 30 * 256}, 62.5),  # a made-up Gemma 3n
    ],
)
def test_blocks_that_are_built_otherwise(
    hidden: int, inner: int, built: dict[str, object], mib: float
) -> None:
    layers = (attention(range(2), kv=1, dim=64, heads=4),)
    shape = shape_of(inspection(layers, hidden=hidden, inner=inner, vocab=64, heads=4))
    found = buffer(replace(shape, **built), 2048)  # type: ignore[arg-type]
    masks = 2 * 512 * 2048
    assert found.low - masks - 0.03 * MIB <= mib * MIB <= found.high - masks + 0.03 * MIB
    assert found.high - found.low <= 0.11 * found.high
