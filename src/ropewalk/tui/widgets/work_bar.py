"""The work of a plan: linear layers against attention, the score matrix, each decoded token."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from textual.content import Content
from textual.widget import Widget

from ropewalk.planner.records import Compute, Plan, Speed
from ropewalk.report.verdict import flops
from ropewalk.tui.themes import stylesheet
from ropewalk.units import format_bytes, format_seconds, format_tokens

_LABEL = 10


class WorkBar(Widget):
    """A bar of two shares with the figures under it."""

    DEFAULT_CSS = stylesheet(__file__)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plan: Plan | None = None

    def show(self, plan: Plan) -> None:
        self._plan = plan
        self.refresh(layout=True)

    def render(self) -> Content:
        if self._plan is None or self._plan.compute is None:
            return Content("")
        return Content("\n").join(work_lines(self._plan, self._plan.compute, self.size.width))


def work_lines(plan: Plan, compute: Compute, width: int) -> Iterator[Content]:
    """Prefill and how it divides, the scores, each decoded token, and the time where it is known."""
    prefill = compute.prefill
    yield _labelled("prefill", flops(prefill.linear_flops + prefill.attention_flops_causal))
    yield shares(compute.attention_share, width)
    if compute.crossover_len:
        times = plan.context_len / compute.crossover_len
        yield _labelled(
            "crossover",
            f"{format_tokens(compute.crossover_len)} tokens: attention equals linear work; "
            f"you are at {times:.2g}x",
        )
    yield scores(plan, compute)
    decode = compute.decode
    yield _labelled(
        "one more",
        f"token reads {format_bytes(decode.bytes_per_token)} and takes {flops(decode.flops_per_token)}",
    )
    if compute.speed is not None:
        yield from _speed(compute.speed)


def _speed(speed: Speed) -> Iterator[Content]:
    """What a prompt and its answer will take: a bound, or with the range that was measured."""
    is_bound = speed.basis == "bound"
    if speed.prefill_seconds is not None:
        least = "at least " if is_bound else ""
        ends = (speed.prefill_seconds_low, speed.prefill_seconds_high)
        words = f"{least}{format_seconds(speed.prefill_seconds)} for the prompt"
        yield _labelled("wait", words + _range(ends, format_seconds))
    if speed.decode_tokens_per_second is not None:
        most = "at most " if is_bound else ""
        ends = (speed.decode_tokens_per_second_low, speed.decode_tokens_per_second_high)
        words = f"{most}{speed.decode_tokens_per_second:.1f} tokens/s"
        yield _labelled("decode", words + _range(ends, "{:.1f}".format))
    yield Content.styled(f"{'':{_LABEL}}{speed.basis}: {speed.source}", "$grey")


def _range(ends: tuple[float | None, float | None], write: Callable[[float], str]) -> str:
    low, high = ends
    return "" if low is None or high is None else f", {write(low)} – {write(high)}"


def shares(attention: float, width: int) -> Content:
    """``attention 74 % ▓▓▓▓▓▓░░ 26 % linear``."""
    left, right = f"attention {attention:4.0%} ", f" {1 - attention:4.0%} linear"
    room = max(4, width - len(left) - len(right))
    filled = round(attention * room)
    return Content.assemble(left, ("▓" * filled, "$orange"), ("░" * (room - filled), "$blue"), right)


def scores(plan: Plan, compute: Compute) -> Content:
    """The square of scores, struck out where this kernel never holds it."""
    amount = format_bytes(compute.score_matrix_bytes)
    held = plan.memory.term("score_matrix") is not None
    if held:
        return _labelled("scores", f"{amount} per layer, held: this attention is eager")
    return Content.assemble(
        (f"{'scores':{_LABEL}}", "$grey"),
        (amount, "strike"),
        " per layer: never held, this kernel works in tiles",
    )


def _labelled(label: str, words: str) -> Content:
    return Content.assemble((f"{label:{_LABEL}}", "$grey"), words)
