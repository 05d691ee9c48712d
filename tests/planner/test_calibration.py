"""A machine of known rates is found again in its timings, and predicted with an honest range."""

from __future__ import annotations

import pytest
from tests.planner.models import qwen3_8b

from ropewalk.planner.calibration import Calibration, PrefillRates, TimedPrompt, calibrate
from ropewalk.planner.plan import make_plan, prompt_work
from ropewalk.planner.records import PlanRequest, PromptWork, Speed

REQUEST = PlanRequest(131072, "vllm")
MACHINE = PrefillRates(0.2, 4e14, 1e14)  # attention at a quarter of the rate of the linear layers


def works(*lengths: int) -> tuple[PromptWork, ...]:
    return prompt_work(qwen3_8b(), REQUEST, lengths)


def timed(*lengths: int, slower: float = 1.0) -> list[TimedPrompt]:
    return [TimedPrompt(work, MACHINE.seconds(work.prefill) * slower) for work in works(*lengths)]


def calibrated(prompts: list[TimedPrompt], decode: tuple[float, ...] = (3e12,)) -> Calibration:
    found = calibrate(prompts, decode_rates=decode, source="run 1")
    assert found is not None
    return found


def speed(calibration: Calibration) -> Speed:
    compute = make_plan(qwen3_8b(), REQUEST, calibration=calibration).compute
    assert compute is not None
    assert compute.speed is not None
    return compute.speed


def test_work_at_the_planned_length_is_the_plans_own() -> None:
    compute = make_plan(qwen3_8b(), REQUEST).compute
    (work,) = works(131072)
    assert compute is not None
    assert (work.prefill, work.decode) == (compute.prefill, compute.decode)
    assert work.attention_share == compute.attention_share


def test_rates_are_found_again() -> None:
    rates = calibrated(timed(2048, 8192, 32768, 65536)).rates
    assert len(rates) == 5  # all lengths, and each left out
    for one in rates:
        assert one.seconds_fixed == pytest.approx(0.2, rel=1e-6)
        assert one.linear_flops_per_second == pytest.approx(4e14, rel=1e-6)
        assert one.attention_flops_per_second == pytest.approx(1e14, rel=1e-6)


def test_a_prediction_names_its_run_and_its_reach() -> None:
    """1,820.794 and 5,066.588 TFLOP (test_compute): 0.2 + 4.552 + 50.666 s."""
    said = speed(calibrated(timed(2048, 8192, 32768, 65536), (2e12, 3e12, 4e12)))
    assert said.basis == "calibrated"
    assert said.source == "run 1, beyond its longest prompt of 65,536"
    assert said.prefill_seconds == pytest.approx(55.418, abs=0.001)
    assert said.prefill_seconds_low == pytest.approx(0.95 * 55.418, abs=0.001)  # timings without scatter
    assert said.prefill_seconds_high == pytest.approx(1.05 * 55.418, abs=0.001)
    bytes_read = 15_136_811_008 + 19_327_352_832  # test_compute
    assert said.decode_tokens_per_second == pytest.approx(3e12 / bytes_read)
    assert said.decode_tokens_per_second_low == pytest.approx(2e12 / bytes_read)
    assert said.decode_tokens_per_second_high == pytest.approx(4e12 / bytes_read)


def test_scatter_widens_the_range_and_the_truth_lies_in_it() -> None:
    prompts = [*timed(2048, 8192, slower=1.1), *timed(2048, 8192, slower=0.95), *timed(32768, 65536)]
    said = speed(calibrated(prompts))
    low, high = said.prefill_seconds_low, said.prefill_seconds_high
    assert low is not None
    assert high is not None
    assert low < 55.418 < high
    assert high / low > 1.1 / 0.95


def test_two_lengths_give_both_rates_with_a_wide_range() -> None:
    prompts = [TimedPrompt(one.work, one.seconds - 0.2) for one in timed(4096, 32768)]
    found = calibrated(prompts)
    assert found.rates[0].linear_flops_per_second == pytest.approx(4e14)
    assert found.rates[0].attention_flops_per_second == pytest.approx(1e14)
    # Short alone: 61.85 TFLOP at one rate; the prediction from it is far too low, and the range says so.
    said = speed(found)
    assert said.prefill_seconds == pytest.approx(55.218, abs=0.001)
    assert said.prefill_seconds_low is not None
    assert said.prefill_seconds_low < 30


def test_one_length_or_no_decoding_is_not_made_up() -> None:
    assert calibrate(timed(2048, 2048), decode_rates=(), source="run 1") is None
    assert speed(calibrated(timed(2048, 131072), ())).decode_tokens_per_second is None
    assert speed(calibrated(timed(2048, 131072), ())).source == "run 1"


@pytest.mark.parametrize("lengths", [(2048, 8192), (2048, 8192, 32768), (2048, 131072)])
@pytest.mark.parametrize("decode", [(3e12,), (3e12, 3e12, 4e12)])
def test_what_is_predicted_lies_inside_its_range(lengths: tuple[int, ...], decode: tuple[float, ...]) -> None:
    said = speed(calibrated(timed(*lengths), decode))
    ranges = (
        (said.prefill_seconds_low, said.prefill_seconds, said.prefill_seconds_high),
        (
            said.decode_tokens_per_second_low,
            said.decode_tokens_per_second,
            said.decode_tokens_per_second_high,
        ),
    )
    for low, point, high in ranges:
        assert low is not None
        assert point is not None
        assert high is not None
        assert low < point < high
