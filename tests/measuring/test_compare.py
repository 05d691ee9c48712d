from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ropewalk.measuring.assemble import assemble
from ropewalk.measuring.compare import compare, compare_findings
from ropewalk.measuring.recall.summary import by_length, cells, speed
from ropewalk.measuring.records import ArmResult, Comparison, Measurement, Outcome, Trial
from ropewalk.planner.records import RopeDecision
from ropewalk.serving.host.devices import Hardware

NONE = RopeDecision("none", None, None, None, None, "as shipped", "gguf")
UNSCALED = RopeDecision("none", None, None, None, None, "the limit is lifted", "request")
YARN = RopeDecision("scale", "yarn", 1.5, 8192, 1.04, "YaRN 1.5", "request")
MARKS: dict[str, Outcome] = {"#": "hit", ".": "miss", "x": "wrong_needle", "R": "refused", "!": "invalid"}


def arm(name: str, rope: RopeDecision, label: str) -> ArmResult:
    return ArmResult(name, label, None, rope, 12288, 12288, 1.0)


ARMS = (
    arm("shipped", NONE, "as shipped"),
    arm("yarn:1.5", YARN, "YaRN 1.5"),
    arm("unscaled", UNSCALED, "unscaled"),
)


def trials(name: str, rows: dict[int, str], *, logprob: float | None = None) -> list[Trial]:
    return [
        Trial(
            key=f"{name}-{length}-{index}",
            arm=name,
            task="niah_single",
            length=length,
            depth=index % 5 / 4,
            seed=index // 5,
            prompt_sha256=f"{length}-{index}",
            expected=("1234567",),
            answer="",
            outcome=MARKS[mark],
            reported_tokens=length,
            cached_tokens=0 if index % 5 == 0 else length - 15,
            prefill_seconds=2.0,
            found=int(mark == "#"),
            first_logprob=-index / 7 if logprob is None else logprob,
        )
        for length, row in rows.items()
        for index, mark in enumerate(row)
    ]


def of(shipped: dict[int, str], yarn: dict[int, str], unscaled: dict[int, str]) -> dict[str, list[Trial]]:
    return {
        "shipped": trials("shipped", shipped),
        "yarn:1.5": trials("yarn:1.5", yarn, logprob=-0.5),
        "unscaled": trials("unscaled", unscaled),
    }


def verdict(asked: dict[str, list[Trial]]) -> Comparison:
    return compare(ARMS, asked, target_len=12288)


def test_the_verdict_speaks_for_the_longest_length_alone() -> None:
    said = verdict(
        of(
            {1900: ".#.##", 7700: ".#..#", 11600: "RRRRR"},
            {1900: "####.", 7700: "..###", 11600: ".##.#"},
            {1900: ".#.##", 7700: ".#..#", 11600: "....."},
        )
    )
    assert said.recommended == "yarn:1.5"
    assert said.verdict == (
        "for 11,600 tokens YaRN 1.5: 3 of 5 recalled, against 0 of 5 unscaled; "
        "at 1,900 tokens 4 of 5, against 3 of 5 as shipped; "
        "5 trials per length: indicative only"
    )
    longest = [pair for pair in said.pairs if pair.length == 11600]
    assert [(pair.arm, pair.other, pair.pairs, pair.only_arm, pair.only_other) for pair in longest] == [
        ("yarn:1.5", "unscaled", 5, 3, 0)
    ]


def test_a_single_arm_is_compared_with_nothing() -> None:
    said = compare(ARMS[:1], {"shipped": trials("shipped", {900: "####."})}, target_len=900)
    assert said.recommended == "shipped"
    assert said.verdict.startswith("for 900 tokens as shipped: 4 of 5 recalled; 5 trials")


def test_level_arms_are_not_ranked() -> None:
    said = verdict(of({900: "##..."}, {900: "##..."}, {900: "#...."}))
    assert said.recommended is None
    assert said.verdict.startswith(
        "at 900 tokens no arm leads: 2 of 5 as shipped, 2 of 5 YaRN 1.5, 1 of 5 unscaled"
    )


def test_a_model_that_recalls_nothing_gets_no_verdict_on_context() -> None:
    said = verdict(of({900: "....."}, {900: "x...."}, {900: "....."}))
    assert said.recommended is None
    assert "too weak for this task" in said.verdict


def test_nothing_judged_is_no_verdict() -> None:
    assert verdict(of({900: "RRRRR"}, {900: "!!!!!"}, {})).verdict == "no answer could be judged: no verdict"


@pytest.mark.parametrize(
    ("yarn", "weight"),
    [
        ("#" * 30, "30 trials, p = 1.9e-09"),
        ("#" * 2 + "." * 28, "30 trials, p = 0.5: no difference is shown"),
    ],
)
def test_enough_trials_are_given_with_their_p(yarn: str, weight: str) -> None:
    said = verdict(of({}, {900: yarn}, {900: "." * 30}))
    assert said.verdict.endswith(f"; {weight}")


def test_only_identical_prompts_make_pairs() -> None:
    asked = of({900: "#####"}, {900: "....."}, {})
    asked["yarn:1.5"] = [_with(one, prompt_sha256="other") for one in asked["yarn:1.5"][:3]] + asked[
        "yarn:1.5"
    ][3:]
    (pair,) = verdict(asked).pairs
    assert (pair.pairs, pair.only_arm) == (2, 2)


def test_a_refused_answer_makes_no_pair() -> None:
    assert verdict(of({900: "#RRRR"}, {900: "#####"}, {})).pairs[0].pairs == 1


def test_what_must_be_known_before_believing() -> None:
    findings = {
        finding.code: finding for finding in compare_findings(ARMS, of({900: "##..."}, {900: "##..."}, {}))
    }
    assert set(findings) == {"few_trials", "short_text_undecided"}
    assert "any drop" in findings["short_text_undecided"].message
    many = compare_findings(ARMS, of({900: "#" * 60}, {900: "#" * 60}, {}))
    assert [finding.code for finding in many] == ["short_text_undecided"]
    assert "a drop of less than 20%" in many[0].message


def test_a_scaling_is_inactive_only_if_every_probability_agrees() -> None:
    asked = of({900: "#####"}, {900: "#####"}, {900: "#####"})
    assert "rope_scaling_inactive" not in _codes(asked)  # shipped and unscaled agree, and may
    asked["yarn:1.5"] = [_with(one, arm="yarn:1.5") for one in asked["shipped"]]
    assert _codes(asked).count("rope_scaling_inactive") == 2
    asked["yarn:1.5"][2] = _with(asked["yarn:1.5"][2], first_logprob=-9.0)
    assert "rope_scaling_inactive" not in _codes(asked)
    unknown = [_with(one, first_logprob=None) for one in asked["shipped"]]
    assert "rope_scaling_inactive" not in _codes({"shipped": unknown, "yarn:1.5": unknown})


def test_relative_reach_is_measured_against_the_model_as_shipped() -> None:
    asked = of({900: "#####", 1900: "####."}, {900: "###..", 1900: "###.."}, {900: "#####"})
    frame = Measurement(
        run_id="r", status="finished", created="", finished=None, checkpoint="", checkpoint_fingerprint="",
        machine=Hardware("", "", 1, 1), target_len=12288, settings={}, arms=(), comparison=None,
    )  # fmt: skip
    arms = assemble(frame, ARMS, [one for own in asked.values() for one in own]).arms
    assert [one.effective_context_relative for one in arms] == [900, None, 900]  # 3 of 5 is 60 % of 5 of 5


def test_cells_count_all_and_judge_some() -> None:
    (cell,) = cells([_with(one, depth=0.5) for one in trials("shipped", {900: "#.x!R"})])
    assert (cell.trials, cell.hits) == (5, 1)
    assert cell.outcomes == {"hit": 1, "miss": 1, "wrong_needle": 1, "invalid": 1, "refused": 1}
    assert (cell.low, cell.high) == pytest.approx((0.0615, 0.7923), abs=1e-4)  # Wilson, 1 of 3
    assert cell.score == pytest.approx(1 / 3)


def test_lengths_pool_depths_and_leave_out_what_was_not_judged() -> None:
    scores = by_length(trials("shipped", {1900: "#..R!", 900: "##", 5000: "RR"}))
    assert [(score.length, score.hits, score.trials) for score in scores] == [(900, 2, 2), (1900, 1, 3)]


def test_speed_is_of_prompts_with_nothing_cached() -> None:
    asked = trials("shipped", {900: "#####", 1900: "#####"})
    points = speed([_with(asked[0], cached_tokens=12), *asked[1:]])
    assert [(point.length, point.prefill_tokens_per_second) for point in points] == [(1900, 950.0)]


def _codes(asked: dict[str, list[Trial]]) -> list[str]:
    return [finding.code for finding in compare_findings(ARMS, asked)]


def _with(trial: Trial, **changes: Any) -> Trial:
    return replace(trial, **changes)
