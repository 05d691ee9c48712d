"""One head by hand: the numbers of transformers, what it is held against, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from tests.inspector.readers.files import write_json
from tests.lab import tiny

from ropewalk.errors import CheckpointError, UsageError
from ropewalk.lab import checks
from ropewalk.lab.attention import PromptTooLongError, attend
from ropewalk.lab.head import Head
from ropewalk.lab.records import Attention
from ropewalk.serving.install import engines_dir

pytestmark = pytest.mark.extra

# transformers 5.19.0, attn_implementation="eager", float32, output_attentions, on the checkpoints of tiny.py:
# the last row of head 3 of layer 1, and row 3 of head 1 of layer 0.
SEEN = {
    "llama": (
        [0.000872, 0.012996, 0.772223, 0.168789, 0.010412, 0.034708],
        [0.994062, 0.003338, 0.000717, 0.001883, 0.0, 0.0],
    ),
    "qwen3": (
        [0.034218, 0.103887, 0.107191, 0.236885, 0.406674, 0.111146],
        [0.622227, 0.115718, 0.096206, 0.165849, 0.0, 0.0],
    ),
    "qwen2": (
        [0.303197, 0.014023, 0.085041, 0.455284, 0.026384, 0.116072],
        [0.000073, 0.508849, 0.486473, 0.004605, 0.0, 0.0],
    ),
    "mistral": (
        [0.0, 0.0, 0.0, 0.297178, 0.018829, 0.683994],
        [0.0, 0.547306, 0.107427, 0.345267, 0.0, 0.0],
    ),
    "smollm3": (
        [0.131597, 0.028717, 0.142347, 0.579031, 0.080688, 0.037621],
        [0.000005, 0.607654, 0.390381, 0.001960, 0.0, 0.0],
    ),
}


def attended(folder: Path, config: dict[str, Any], **options: Any) -> Attention:
    return attend(tiny.write(folder, config), **{"tokens": tiny.TOKENS, **options})


def row(attention: Attention, query: int) -> tuple[float, ...]:
    assert attention.squares is not None
    return attention.squares.weights[query]


@pytest.mark.parametrize("family", tiny.FAMILIES)
def test_the_weights_are_those_of_transformers(family: str, tmp_path: Path) -> None:
    second = attended(tmp_path, tiny.FAMILIES[family], layer=1, head=3)
    first = attended(tmp_path, tiny.FAMILIES[family], layer=0, head=1)
    last_row, fourth_row = SEEN[family]
    assert row(second, -1) == pytest.approx(last_row, abs=2e-6)
    assert row(first, 3) == pytest.approx(fourth_row, abs=2e-6)
    assert second.ok
    assert first.ok


def test_the_head_is_held_against_eager_and_sdpa(tmp_path: Path) -> None:
    seen = attended(tmp_path, tiny.QWEN3, head=2)
    assert [(held.against, held.quantity) for held in seen.held] == [
        ("eager", "weights"), ("eager", "output"), ("sdpa", "output"),
    ]  # fmt: skip
    assert max(held.largest_difference for held in seen.held) < 1e-6
    assert (seen.kv_head, seen.gqa_ratio, seen.head_dim, seen.scale) == (1, 2, 8, 8**-0.5)
    assert seen.attention_factor == pytest.approx(1.138629, abs=1e-6)  # 0.1 ln 4 + 1


def test_the_checks_of_the_lessons(tmp_path: Path) -> None:
    seen = {check.name: check for check in attended(tmp_path, tiny.QWEN3, layer=1).checks}
    assert list(seen) == [
        "rows_sum_to_one", "later_token_changes_no_earlier",
        "equal_distances_equal_scores", "kv_head_is_head_over_ratio",
    ]  # fmt: skip
    assert all(check.ok and check.value <= check.tolerance for check in seen.values())
    assert seen["later_token_changes_no_earlier"].detail.startswith("logits of the earlier tokens")


def test_a_layer_without_rotation_is_not_tried_for_distances(tmp_path: Path) -> None:
    seen = attended(tmp_path, tiny.SMOLLM3, layer=1)
    assert not seen.rotary
    assert "equal_distances_equal_scores" not in [check.name for check in seen.checks]


def test_a_check_can_fail() -> None:
    weights = torch.tensor([[1.0, 0.0], [0.5, 0.4]])
    head = Head(weights, weights > 0, weights, weights)
    assert not checks.rows_sum_to_one(head).ok
    kept = torch.ones(3, 4)
    earlier, last, neither = kept.clone(), kept.clone(), kept
    earlier[0, 0], last[2, 0] = 2.0, 2.0
    assert not checks.later_token(kept, earlier, what="logits").ok
    assert not checks.later_token(kept, neither, what="logits").ok  # the last token had no effect at all
    assert checks.later_token(kept, last, what="logits").ok


def test_without_logits_nothing_above_the_layer_is_read(tmp_path: Path) -> None:
    block = 4 * (2 * 24 + 32 * 24 + 2 * 16 * 24 + 24 * 32 + 3 * 40 * 24)
    seen = attended(tmp_path, tiny.MISTRAL, logits=False)
    assert seen.weight_bytes_read == block + 2 * len(tiny.TOKENS) * 24 * 4
    both = attended(tmp_path, tiny.MISTRAL)
    assert both.weight_bytes_read == seen.weight_bytes_read + block + 4 * (24 + 32 * 24)
    assert row(seen, -1) == row(both, -1)


def test_a_window_is_part_of_the_mask(tmp_path: Path) -> None:
    seen = attended(tmp_path, tiny.MISTRAL)
    assert seen.window == 3
    assert seen.squares is not None
    assert seen.squares.mask[4] == (False, False, True, True, True, False)
    assert sum(map(sum, seen.squares.mask)) == 6 * 7 // 2 - 3 * 4 // 2


def test_a_single_token_sees_itself(tmp_path: Path) -> None:
    seen = attended(tmp_path, tiny.LLAMA, tokens=(7,))
    assert seen.ok
    assert seen.squares is not None
    assert seen.squares.weights == ((1.0,),)


def test_a_long_prompt_is_checked_but_not_listed(tmp_path: Path) -> None:
    seen = attended(tmp_path, tiny.LLAMA, tokens=[number % 32 for number in range(129)])
    assert seen.ok
    assert seen.squares is None
    assert seen.square_bytes == 4 * 129**2 * 4


def test_a_prompt_whose_square_does_not_fit_is_refused_with_its_size(tmp_path: Path) -> None:
    with pytest.raises(PromptTooLongError) as caught:
        attended(tmp_path, tiny.LLAMA, tokens=[1] * 100, memory_bytes=100_000)
    error = caught.value
    assert (error.code, error.exit_status) == ("does_not_fit", 1)
    assert (error.where["square_bytes"], error.where["needed_bytes"]) == (160_000, 960_000)
    assert "4 heads x 100^2 x 4 bytes = 156.25 KiB" in error.message


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"layer": 2}, "layer 2 is not there: the checkpoint has 0 to 1"),
        ({"head": 4}, "head 4 is not there: the checkpoint has 0 to 3"),
        ({"tokens": (1, 32)}, "token id 32 is not there: the checkpoint has 0 to 31"),
    ],
)
def test_what_is_not_there_is_refused(options: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=told):
        attended(tmp_path, tiny.LLAMA, **options)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"model_type": "granite"}, "model_type granite is none of llama"),
        ({"hidden_act": "gelu"}, "feed_forward is gated, gelu"),
    ],
)
def test_a_layout_that_is_not_covered_is_refused(change: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=told) as caught:
        attended(tmp_path, {**tiny.LLAMA, **change})
    assert caught.value.code == "attend_unsupported"


def test_a_checkpoint_that_contradicts_itself_is_refused(tmp_path: Path) -> None:
    folder = tiny.write(tmp_path, tiny.LLAMA)
    write_json(folder / "config.json", {**tiny.LLAMA, "num_attention_heads": 3})
    with pytest.raises(CheckpointError) as caught:
        attend(folder, tokens=(1,))
    assert caught.value.code == "config_tensor_mismatch"


def test_a_gguf_is_refused_with_advice(smollm2: Path) -> None:
    with pytest.raises(UsageError, match="use the safetensors folder"):
        attend(smollm2, tokens=(1,))


# The same run of transformers on SmolLM2-135M-Instruct in float32: last rows of head 4 of layer 3 and of
# head 8 of layer 29, for "The cat sat on the mat."
@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "head", "weights"),
    [
        (3, 4, [0.449701, 0.001261, 0.00578, 0.004949, 0.508743, 0.000539, 0.029026]),
        (29, 8, [0.758838, 0.106222, 0.001853, 0.009813, 0.008463, 0.033453, 0.081358]),
    ],
)
def test_a_real_model(layer: int, head: int, weights: list[float]) -> None:
    folder = engines_dir() / "models" / "SmolLM2-135M-Instruct"
    if not (folder / ".complete").is_file():
        pytest.skip("the model is made by the slow tests of serving")
    pytest.importorskip("tokenizers")
    seen = attend(folder, prompt="The cat sat on the mat.", layer=layer, head=head)
    assert seen.ok
    assert [token.text for token in seen.tokens] == ["The", " cat", " sat", " on", " the", " mat", "."]
    assert row(seen, -1) == pytest.approx(weights, abs=2e-5)
