"""Pages of the terminal: whole ones as snapshots, and what must not go wrong in them."""

from __future__ import annotations

import shlex
from dataclasses import replace

import pytest
from tests.cli import records
from tests.report.render import check_page, render

from ropewalk.engines import EngineBuild
from ropewalk.findings import Finding
from ropewalk.inspector.layer_kinds import FullAttention, NoCache
from ropewalk.inspector.records import Fact
from ropewalk.measuring.records import NodeSeen
from ropewalk.planner.cache_summary import CacheSummary, cache_summary
from ropewalk.planner.records import DeviceShare, Plan, Speed
from ropewalk.report import layers
from ropewalk.report.command import fold
from ropewalk.report.figures import bar, common_unit, in_unit, range_bar
from ropewalk.report.inspection import facts_page, inspection_page
from ropewalk.report.measurement import measurement_page
from ropewalk.report.plan import plan_page
from ropewalk.units import GIB, MIB


def shell_words(command: str) -> list[str]:
    """The words that a shell reads; a backslash at the end of a line continues it."""
    return shlex.split(command.replace("\\\n", ""))


KEPT = CacheSummary("bf16", 147456, 0, ((32768, 32768 * 147456), (131072, 131072 * 147456)))


def test_inspection_page() -> None:
    check_page("inspect", inspection_page(records.qwen3_8b(), kept=KEPT))


def test_inspection_page_of_a_lying_config_has_the_error_first() -> None:
    check_page("inspect-lying", inspection_page(records.lying()))
    second_line = render(inspection_page(records.lying())).splitlines()[1]
    assert second_line.startswith("findings   ✗ config_tensor_mismatch")


def test_the_kept_bytes_on_the_page_are_the_planners() -> None:
    assert (
        cache_summary(records.qwen3_8b()) == KEPT
    )  # 36 layers x 8 heads x 2 x 128 x 2 B; 4.50 and 18.00 GiB


def test_facts_page() -> None:
    check_page("facts", facts_page(records.qwen3_8b()))


def test_plan_pages() -> None:
    check_page("plan-fits", plan_page(records.qwen3_plan()))
    check_page("plan-too-large", plan_page(records.too_large(), sources=True))
    check_page("plan-no-budget", plan_page(records.no_budget()))
    check_page("plan-refused", plan_page(records.refused()))


def test_measurement_page() -> None:
    check_page("measurement", measurement_page(records.smollm2_measurement()))


@pytest.mark.parametrize(
    ("plan", "verdict"),
    [
        (records.qwen3_plan(), "FITS "),
        (records.too_large(), "DOES NOT FIT "),
        (records.no_budget(), "NEEDS "),
        (records.refused(), "REFUSED "),
    ],
)
def test_the_verdict_is_the_first_word(plan: Plan, verdict: str) -> None:
    assert render(plan_page(plan)).startswith(verdict)


def test_a_plan_that_rests_on_an_error_is_not_said_to_fit() -> None:
    plan = records.qwen3_plan()
    wrong = Finding("config_tensor_mismatch", "error", "num_key_value_heads: 4 and 8")
    assert render(plan_page(replace(plan, findings=(wrong,)))).startswith("WRONG ")


def test_the_largest_context_says_what_ends_it() -> None:
    plan = records.qwen3_plan()
    text = render(plan_page(replace(plan, fit=replace(plan.fit, limited_by="publisher"))), 120)
    assert "largest context 188,416 tokens (the longest described)" in text


def test_several_devices_are_listed_and_no_spare_is_claimed() -> None:
    plan = records.qwen3_plan()
    shares = tuple(
        DeviceShare(f"cuda:{n}", 8 * GIB, 9 * GIB, 19 * GIB, n == 0, (18 * n, 18 * n + 18)) for n in range(2)
    )
    text = render(plan_page(replace(plan, memory=replace(plan.memory, per_device=shares))))
    assert "2 GPUs of 48.00 GiB" in text
    assert "to spare" not in text
    assert "✗ cuda:1  18–35   8.00 GiB  9.00 GiB  19.00 GiB" in text


def test_spare_memory_is_of_what_the_engine_lets_itself_use() -> None:
    plan = records.qwen3_plan()
    plan = replace(plan, fit=replace(plan.fit, usable_bytes=40 * GIB))
    text = render(plan_page(plan), 120)
    assert "2.74 to 5.49 GiB to spare" in text  # 40 - 37.26, 40 - 34.51
    assert "of 40.00 GiB usable (83% of 48.00 GiB)" in text


def test_the_command_on_the_page_is_the_planned_one() -> None:
    plan = records.qwen3_plan()
    assert plan.launch is not None
    text = render(plan_page(plan))
    command = text[text.index("vllm serve") :]
    assert shell_words(command) == shell_words(plan.launch.command)


@pytest.mark.parametrize("width", [20, 60, 200])
def test_a_folded_command_parses_back_to_the_same_words(width: int) -> None:
    command = "FOO='a b' BAR=1 vllm serve 'my model' -c 1 --json '{\"a\": [1, 2]}' --flag --last \"it's\""
    assert shell_words(fold(command, width=width)) == shell_words(command)


def test_assignments_before_the_program_stay_assignments() -> None:
    assert fold("FOO='a b' vllm serve x=1 --flag", width=80) == "FOO='a b' vllm serve x=1 --flag"


def test_a_calibrated_speed_has_its_range_and_its_run() -> None:
    plan = records.qwen3_plan()
    assert plan.compute is not None
    speed = Speed("calibrated", "run 20261130-1549-7f3a", 55.4, 90.0, 50.0, 62.0, 80.5, 95.25)
    text = render(plan_page(replace(plan, compute=replace(plan.compute, speed=speed))), 120)
    assert "decode 90.0 tokens/s, 80.5 – 95.2" in text
    assert "prefill 55 s, 50 s – 1 min 2 s" in text
    assert "speed calibrated (run 20261130-1549-7f3a)" in text


def test_unknown_facts_are_said_to_be_unknown() -> None:
    inspection = replace(records.qwen3_8b(), facts={}, layers=(), block=None)
    text = render(inspection_page(inspection))
    assert "reaches    unknown: nothing in the checkpoint says" in text
    assert "embeds     unknown x unknown" in text


def test_a_rope_scaling_is_named_with_its_factor_and_origin() -> None:
    inspection = records.qwen3_8b()
    block = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
    facts = inspection.facts | {"rope_scaling": Fact(block, "config")}
    assert "scaling yarn 4 from 32,768" in render(inspection_page(replace(inspection, facts=facts)))


def test_layer_patterns_in_words() -> None:
    assert layers.words(records.hybrid_layers()) == "5 sliding 1,024 + 1 full, x 10, + 2 sliding 1,024"
    assert layers.strip(records.hybrid_layers()) == "▒▒▒▒▒█" * 10 + "▒▒"
    assert layers.words(records.qwen3_8b().layers) == "36 full"


def test_an_irregular_pattern_is_counted_instead() -> None:
    full = (0, 2, 3, 7, 12, 13, 14, 20, 22, 29)
    none = tuple(index for index in range(30) if index not in full)
    groups = (FullAttention(full), NoCache(none))
    assert layers.words(groups) == "10 full + 20 none, in no regular order"


def test_bars_never_hide_something_and_never_overflow() -> None:
    assert bar(0.0, 8) == ""
    assert bar(0.001, 8) == "▏"
    assert bar(0.5, 8) == "████"
    assert bar(7.0, 8) == "████████"
    assert range_bar(0.25, 0.5, 8) == "██▒▒"
    assert range_bar(0.5, 0.5, 8) == "████"
    assert range_bar(0.0, 0.001, 8) == "▒"


def test_one_unit_for_a_column() -> None:
    assert common_unit((MIB, GIB)) == "GiB"
    assert common_unit((MIB,)) == common_unit(()) == "MiB"
    assert in_unit(3 * GIB // 2, "GiB") == "1.50"
    assert in_unit(5 * GIB, "MiB") == "5,120.00"


def test_arms_that_do_not_fit_abreast_go_below() -> None:
    text = render(measurement_page(records.smollm2_measurement()), 60)
    heads = [line for line in text.splitlines() if "(12,288)" in line or "(8,192)" in line]
    assert len(heads) == 2


def test_an_unfinished_run_says_so() -> None:
    run = replace(records.smollm2_measurement(), status="interrupted", comparison=None)
    assert render(measurement_page(run)).startswith("status     interrupted")


def test_the_nodes_of_a_campaign_are_listed() -> None:
    run = records.smollm2_measurement()
    seen = NodeSeen("gpu-a", "10.9.0.1", run.machine, "3.11.7", "0.1.0", attempt=1, task="ab", whole=True)
    served = replace(seen, attempt=2, engine=EngineBuild("vllm", "vllm", "0.32.0", "vllm"))
    shipped, scaled, unscaled = run.arms
    arms = (replace(shipped, node=replace(seen, address=None)), replace(scaled, node=served), unscaled)
    text = render(measurement_page(replace(run, arms=arms)))
    begin = text.index("ran on")
    assert text[begin : text.index("findings", begin)].splitlines() == [
        "ran on     as shipped  gpu-a             –",
        "           YaRN 1.5    gpu-a (10.9.0.1)  vllm 0.32.0  attempt 2",
    ]
