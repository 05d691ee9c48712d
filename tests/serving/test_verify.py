"""Holding a server to its plan, with servers that break one promise each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from ropewalk.errors import EngineFailedError
from ropewalk.planner.records import Plan, PlanRequest, RopeDecision
from ropewalk.serving.client import Completion, PromptTooLongError, ServerClient, TokenChoice
from ropewalk.serving.launcher import RunningServer
from ropewalk.serving.server_report import ServerReport
from ropewalk.serving.verify import Probe, difference, fill, printed_scaling, probe, verify

MakePlan = Callable[..., Plan]
YARN = RopeDecision("scale", "yarn", 2.0, 8192, 1.07, "", "")
BOS, CONTEXT = 1, 1000


@dataclass
class Server:
    """Answers " Paris" with a probability of ``logprob``; ``fault`` is what happens at the long prompt."""

    logprob: float = -0.5
    fault: str = ""
    poisoned: bool = False
    longest: int = 0
    has_logprobs: bool = True

    @property
    def client(self) -> Server:
        return self

    def require_alive(self) -> None:
        if self.fault == "dies":
            raise EngineFailedError("it ended")

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        return [BOS] * add_special + [7 + len(word) for word in text.split()]

    def complete(self, prompt: Sequence[int], **options: Any) -> Completion:
        assert options["cache_prompt"] is False
        is_long = len(prompt) > 500
        self.longest = max(self.longest, len(prompt) + options["max_tokens"])
        if is_long and self.fault == "refuses":
            raise PromptTooLongError("too long for 512 tokens", prompt_tokens=len(prompt), context_len=512)
        self.poisoned = self.poisoned or (is_long and self.fault == "poisoned")
        logprob = math.nan if is_long and self.fault == "nan" else self.logprob
        return Completion(
            text="" if self.poisoned else " Paris",
            tokens=(9,),
            prompt_tokens=512 if is_long and self.fault == "cuts" else len(prompt),
            cached_tokens=0,
            prefill_seconds=None,
            decode_tokens_per_second=None,
            truncated=False,
            finish="length",
            top_logprobs=((TokenChoice(9, " Paris", logprob), TokenChoice(8, " the", -3.0)),)
            if self.has_logprobs
            else (),
        )


@pytest.fixture
def plan(make_plan: MakePlan) -> Plan:
    return make_plan(PlanRequest(CONTEXT, "llama-server"), checkpoint="m.gguf", rope=YARN)


def findings_of(server: Server, plan: Plan, unscaled: Probe | None = None) -> list[tuple[str, str]]:
    seen = verify(cast(RunningServer, server), plan, unscaled=unscaled)
    return [(finding.code, finding.message) for finding in seen.findings]


def test_a_server_that_keeps_its_promises(plan: Plan) -> None:
    server = Server()
    seen = verify(cast(RunningServer, server), plan, unscaled=Probe(" Rome", {" Paris": -1.25}))
    assert (seen.filled_tokens, seen.rope_difference, seen.findings) == (CONTEXT - 4, 0.75, ())
    assert seen.fill_seconds is not None
    assert server.longest == CONTEXT  # the last position is used


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("refuses", "too long for 512 tokens"),
        ("cuts", "512 tokens were evaluated"),
        ("nan", "the log-probabilities are no numbers"),
    ],
)
def test_a_context_that_does_not_hold(fault: str, reason: str, plan: Plan) -> None:
    assert findings_of(Server(fault=fault), plan) == [
        ("context_not_held", f"a prompt of 996 tokens was not served as planned: {reason}")
    ]


def test_a_server_that_answers_nothing_any_more(plan: Plan) -> None:
    # vLLM 0.32.0, a rotary table of 1,024 rows under a context of 8,192: status 200, empty text, and
    # afterwards even 69 tokens are answered with nothing.
    assert findings_of(Server(fault="poisoned"), plan) == [
        ("context_not_held", "a prompt of 996 tokens was not served as planned: the answer is empty"),
        ("answer_changed", "after the longest prompt a short one is answered '', before ' Paris'"),
    ]


def test_scaling_that_makes_no_difference_is_not_in_effect(plan: Plan) -> None:
    server = Server()
    unscaled = probe(cast(ServerClient, server))
    (finding,) = verify(cast(RunningServer, server), plan, unscaled=unscaled).findings
    assert (finding.code, finding.severity) == ("rope_scaling_inactive", "error")
    assert finding.where == {"factor": 2.0, "type": "yarn"}


def test_a_server_that_dies_at_the_long_prompt(plan: Plan) -> None:
    with pytest.raises(EngineFailedError):
        verify(cast(RunningServer, Server(fault="dies")), plan, unscaled=None)


def test_filling_is_exact_and_begins_as_the_model_begins() -> None:
    for count in (1, 63, 64, 700):
        tokens = fill(cast(ServerClient, Server()), count)
        assert len(tokens) == count
        assert tokens.count(BOS) == 1
        assert tokens[0] == BOS


def test_an_engine_without_probabilities_is_judged_by_its_words(plan: Plan) -> None:
    assert difference(Probe("a", {}), Probe("a", {})) == 0.0
    assert difference(Probe("a", {}), Probe("b", {})) == math.inf
    server = Server()
    server.has_logprobs = False
    found = verify(cast(RunningServer, server), plan, unscaled=Probe(" Paris", {}))
    assert (found.filled_tokens, found.rope_difference, found.findings) == (996, None, ())


def test_answers_without_anything_in_common_differ_infinitely() -> None:
    assert difference(Probe("a", {"a": -1.0, "b": -2.0}), Probe("b", {"b": -1.5, "c": -9.0})) == 0.5
    assert difference(Probe("a", {"a": -1.0}), Probe("b", {"b": -1.0})) == math.inf
    assert difference(Probe("a", {"a": math.nan}), Probe("a", {"a": math.nan})) == math.inf


@pytest.mark.parametrize(("printed", "codes"), [(0.5, []), (None, []), (1.0, ["rope_scaling_inactive"])])
def test_what_the_engine_prints_of_the_scaling(printed: float | None, codes: list[str], plan: Plan) -> None:
    report = ServerReport("m", CONTEXT, 1, freq_scale=printed)
    assert [finding.code for finding in printed_scaling(plan, report)] == codes


def test_six_printed_digits_are_enough(plan: Plan) -> None:
    third = replace(plan, rope=replace(YARN, factor=3.0))
    assert list(printed_scaling(third, ServerReport("m", CONTEXT, 1, freq_scale=0.333333))) == []


def test_the_wait_for_a_long_context_is_told_before_it_begins(make_plan: MakePlan) -> None:
    """Seconds are worked out from the first part of the prompt; a short context is soon filled."""
    told: list[tuple[int, float | None]] = []
    for context in (16_384, 2048):
        asked = make_plan(PlanRequest(context, "llama-server"), checkpoint="m.gguf", rope=YARN)
        server = cast(RunningServer, Server())
        verify(server, asked, unscaled=None, on_fill=lambda tokens, seconds: told.append((tokens, seconds)))
    (long, seconds), soon = told
    assert (long, soon) == (16_380, (2044, None))
    assert seconds is not None
    assert seconds > 0
