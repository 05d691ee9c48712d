"""What is to be said about a length that an engine serves, whichever engine it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ropewalk.checking.diagnostics import Diagnostic, diagnostic
from ropewalk.engines import EngineName
from ropewalk.inspector.records import Inspection
from ropewalk.planner.rope.decision import RopeAdvice, decide_rope
from ropewalk.planner.rope.emit import format_number
from ropewalk.units import format_tokens as tokens


@dataclass(frozen=True, slots=True)
class Reach:
    """The longest length up to the one asked for that can be planned, and the decision for it.

    ``advice`` refuses still where nothing beyond the engine's own limit can be had.
    """

    length: int
    advice: RopeAdvice


def reach(inspection: Inspection, *, context_len: int, engine: EngineName, version: str | None) -> Reach:
    """The planner's decision for a length, or else for what the publisher describes at most."""
    advice = decide_rope(inspection, context_len=context_len, engine=engine, engine_version=version)
    supported = advice.supported_context
    if advice.decision.decision != "refuse" or supported is None or supported >= context_len:
        return Reach(context_len, advice)
    return Reach(
        supported, decide_rope(inspection, context_len=supported, engine=engine, engine_version=version)
    )


def over_trained(length: int, advice: RopeAdvice, *, flag: str, fix: str) -> Iterator[Diagnostic]:
    """Positions that the weights have never seen, unscaled."""
    native = advice.native_context
    if native is not None and length > native:
        yield diagnostic(
            "context_over_trained",
            "warning",
            f"{tokens(length)} tokens are served unscaled, {tokens(native)} were trained",
            fix=fix,
            flag=flag,
            context_len=length,
            native_context=native,
        )


def beyond_published(length: int, advice: RopeAdvice, *, flag: str) -> Iterator[Diagnostic]:
    """Longer than anything that the publisher describes."""
    supported = advice.supported_context
    if supported is not None and length > supported:
        yield diagnostic(
            "beyond_published_context",
            "warning",
            f"{tokens(length)} tokens: no more than {tokens(supported)} are described for this model",
            fix="measure recall at this length before trusting it",
            flag=flag,
            context_len=length,
            supported_context=supported,
        )


def short_texts(factor: float, advice: RopeAdvice, *, length: int, flag: str) -> Diagnostic:
    """YaRN is static: it turns the positions of short prompts too, the more the larger its factor."""
    smallest = advice.decision.factor or 1.0
    smaller = factor > smallest * 1.0001  # the engines' single precision is no difference
    hint = f"; {format_number(smallest)} is enough for {tokens(length)} tokens" if smaller else ""
    return diagnostic(
        "short_text_degradation",
        "warning",
        f"YaRN {factor:g} applies to every prompt, short ones too{hint}",
        fix=f"factor {format_number(smallest)}" if smaller else "serve without it where prompts stay short",
        flag=flag,
        factor=factor,
        smallest=smallest,
    )
