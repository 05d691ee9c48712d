"""Two runs on the prompts that both asked: how engines and quantisations are compared."""

from __future__ import annotations

from dataclasses import replace

from tests.measuring.test_compare import ARMS, trials
from tests.measuring.test_store import run

from ropewalk.measuring.loss.records import LossSpan
from ropewalk.measuring.run_pair import pair_runs


def test_only_prompts_of_both_runs_are_pairs() -> None:
    one, other = run("a", arms=ARMS[:2]), run("b", arms=(ARMS[0],))
    ours = [*trials("shipped", {400: "####.", 900: "##..."}), *trials("yarn:1.5", {400: "....."})]
    theirs = trials("shipped", {400: "#...R", 700: "#####"})
    (pair,) = pair_runs(one, other, trials=(ours, theirs)).pairs
    assert (pair.arm, pair.other, pair.length) == ("shipped", "shipped", 400)
    assert (pair.pairs, pair.only_arm, pair.only_other, pair.p_value) == (4, 3, 0, 0.25)
    assert pair.visible_drop is None


def test_other_tokens_are_no_pairs() -> None:
    ours = trials("shipped", {400: "#####"})
    theirs = [replace(trial, prompt_sha256=f"other-{trial.prompt_sha256}") for trial in ours]
    both = run("a", arms=ARMS[:1]), run("b", arms=ARMS[:1])
    assert pair_runs(*both, trials=(ours, theirs)).pairs == ()


def test_losses_of_both_runs_are_paired_by_arm() -> None:
    one, other = run("a", arms=ARMS[:2]), run("b", arms=ARMS[:1])
    spans = [LossSpan(arm, arm, "loss", "t", 256, (5, 6), (1.0, 2.0)) for arm in ("shipped", "yarn:1.5")]
    theirs = [replace(spans[0], losses=(1.5, 2.5))]
    (pair,) = pair_runs(one, other, trials=((), ()), losses=(spans, theirs)).losses
    assert (pair.arm, pair.other, pair.pairs, pair.whole.mean) == ("shipped", "shipped", 2, 0.5)
