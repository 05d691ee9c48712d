"""Findings about the slots of a llama-server command: how a cache is shared, divided and bounded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ropewalk.checking.diagnostics import Diagnostic, diagnostic, set_flag
from ropewalk.checking.llama_settings import LlamaServed, LlamaSettings
from ropewalk.planner.engines.llama_fit import FittedContext
from ropewalk.units import format_tokens as tokens


def slot_diagnostics(
    settings: LlamaSettings,
    served: LlamaServed,
    *,
    fitted: FittedContext | None = None,
    version: str | None = None,
) -> Iterator[Diagnostic]:
    """How the slots come to their context; ``fitted`` is what ``--fit`` leaves on a known device."""
    slots, effect = served.slots, settings.fit_effect(version)
    if settings.unified and slots.num_slots > 1:
        yield _shared(settings, served)
    elif slots.num_slots > 1:
        yield _divided(settings, served)
    if effect.shrinks_context and not settings.per_slot:
        ends: dict[str, Any] = {"low": fitted.low, "high": fitted.high} if fitted else {}
        yield diagnostic(
            "context_may_shrink",
            "info",
            f"-c is not given: --fit leaves {_told(fitted)} of the trained context here"
            if fitted
            else f"-c is not given: the trained context of {tokens(slots.n_ctx)} tokens is reserved, or less "
            f"where --fit (on by default) finds too little memory, down to {tokens(settings.fit_floor)}",
            fix=f"-c {slots.n_ctx}",
            flag="--ctx-size",
            floor=settings.fit_floor,
            **ends,
        )
    elif settings.ctx == 0:
        yield diagnostic(
            "context_from_checkpoint",
            "info",
            f"-c 0 reserves the whole trained context, {tokens(slots.n_ctx)} tokens, and keeps --fit from "
            "reducing it",
            fix="give -c the length that is needed",
            flag="--ctx-size",
            n_ctx=slots.n_ctx,
        )
    if settings.fit_given and effect.stopped_by and settings.ctx is not None:
        yield diagnostic(
            "flag_without_effect",
            "warning",
            f"--fit changes nothing where -c and {effect.stopped_by} are given: it gives up with a warning "
            "in the log, and the server runs out of memory where the rest does not fit",
            fix=f"leave out {' and '.join(settings.placed)}, and --fit places the layers and experts",
            flag="--fit",
            placed=list(settings.placed),
        )
    if settings.per_slot > slots.cells:
        yield diagnostic(
            "flag_without_effect",
            "warning",
            f"--kv-unified-per-slot {settings.per_slot} is more than a slot can have ({tokens(slots.cells)})",
            fix=f"-c {settings.per_slot * slots.num_slots}, or no -c at all",
            flag="--kv-unified-per-slot",
            value=settings.per_slot,
            cells=slots.cells,
        )


def _told(found: FittedContext) -> str:
    """The length with its range."""
    if found.low == found.high:
        return f"{tokens(found.tokens)} tokens"
    return f"about {tokens(found.tokens)} tokens ({tokens(found.low)} to {tokens(found.high)})"


def _shared(settings: LlamaSettings, served: LlamaServed) -> Diagnostic:
    """One pool; whoever did not ask for slots is given one that has it alone."""
    slots = served.slots
    how = "without -np there are four slots, which" if settings.auto_slots else f"{slots.num_slots} slots"
    each = slots.n_ctx // slots.num_slots
    return diagnostic(
        "pool_shared",
        "warning" if settings.auto_slots else "info",
        f"{how} share one cache of {tokens(slots.n_ctx)} tokens: each may take up to "
        f"{tokens(served.slot_len)}, all together no more than the cache holds",
        fix=f"-np 1 for one request at a time, or --kv-unified-per-slot {each} for {slots.num_slots} at once",
        repair=set_flag("--parallel", 1, short="-np") if settings.auto_slots else None,
        flag="--parallel",
        num_slots=slots.num_slots,
        kv_cells=slots.n_ctx,
        context_per_request=served.slot_len,
    )


def _divided(settings: LlamaSettings, served: LlamaServed) -> Diagnostic:
    """``-c`` is the length of all slots together. A total beyond the trained length was meant as one."""
    slots = served.slots
    total = settings.ctx or slots.n_ctx
    meant_as_total = settings.split_given or total > (served.trained_len or total)
    each = f"-c {total * slots.num_slots} for {tokens(total)} each, or "
    return diagnostic(
        "slot_context_divided",
        "info" if meant_as_total else "warning",
        f"-np {slots.num_slots} divides -c {total}: each request has {tokens(slots.cells)} tokens, prompt "
        "and answer together",
        fix=("" if meant_as_total or served.trained_len is None else each)
        + "--kv-unified, and each request may use the whole cache; -np 1 for one request at a time",
        repair=None if meant_as_total else set_flag("--kv-unified"),
        flag="--parallel",
        ctx_size=total,
        num_slots=slots.num_slots,
        context_per_request=slots.cells,
    )
