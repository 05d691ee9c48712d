"""The work of a plan: linear layers against attention, the score matrix, one more token."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content
from textual.widget import Widget

from ropewalk.planner.records import Compute, Plan
from ropewalk.report.verdict import flops
from ropewalk.tui.style import stylesheet
from ropewalk.units import format_bytes, format_seconds, format_tokens

_LABEL = 10


class WorkBar(Widget):
    """A bar of two shares with the figures under it."""

    DEFAULT_CSS = stylesheet(__file__)

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plan: Plan | None = None

    def show(self, plan: Plan) -> None:
        """Draw a plan."""
        self._plan = plan
        self.refresh(layout=True)

    def render(self) -> Content:
        """The lines."""
        if self._plan is None or self._plan.compute is None:
            return Content("")
        return Content("\n").join(_lines(self._plan, self._plan.compute, self.size.width))


def _lines(plan: Plan, compute: Compute, width: int) -> Iterator[Content]:
    prefill = compute.prefill
    yield _labelled("prefill", flops(prefill.linear_flops + prefill.attention_flops_causal))
    yield shares(compute.attention_share, width)
    if compute.crossover_len:
        times = plan.context_len / compute.crossover_len
        yield _labelled(
            "crossover",
            f"{format_tokens(compute.crossover_len)} tokens, where both are equal; here {times:.2g} x that",
        )
    yield scores(plan, compute)
    decode = compute.decode
    yield _labelled(
        "one more",
        f"token reads {format_bytes(decode.bytes_per_token)} and takes {flops(decode.flops_per_token)}",
    )
    if compute.speed and compute.speed.decode_tokens_per_second is not None:
        most = "at most " if compute.speed.basis == "bound" else ""
        yield _labelled("decode", f"{most}{compute.speed.decode_tokens_per_second:.1f} tokens/s")
    if compute.speed and compute.speed.prefill_seconds is not None:
        least = "at least " if compute.speed.basis == "bound" else ""
        yield _labelled("wait", f"{least}{format_seconds(compute.speed.prefill_seconds)} for the prompt")


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
