"""Findings about the slots of a llama-server command: how a cache is shared, divided and bounded."""

from __future__ import annotations

from collections.abc import Iterator

from ropewalk.checking.diagnostics import Diagnostic, remark
from ropewalk.checking.llama_settings import LlamaServed, LlamaSettings
from ropewalk.units import format_tokens as tokens


def slot_remarks(settings: LlamaSettings, served: LlamaServed) -> Iterator[Diagnostic]:
    """How the slots come to their context."""
    slots = served.slots
    if settings.unified and slots.num_slots > 1:
        yield _shared(settings, served)
    elif slots.num_slots > 1:
        yield _divided(settings, served)
    if settings.ctx is None and settings.fit and not settings.per_slot:
        yield remark(
            "context_may_shrink",
            "info",
            f"-c is not given: the trained context of {tokens(slots.n_ctx)} tokens is reserved, or less "
            "where --fit (on by default) finds too little memory, down to 4,096",
            fix=f"-c {slots.n_ctx}",
            flag="--ctx-size",
        )
    elif settings.ctx == 0:
        yield remark(
            "context_from_checkpoint",
            "info",
            f"-c 0 reserves the whole trained context, {tokens(slots.n_ctx)} tokens, and keeps --fit from "
            "reducing it",
            fix="give -c the length that is needed",
            flag="--ctx-size",
            n_ctx=slots.n_ctx,
        )
    if settings.per_slot > slots.cells:
        yield remark(
            "flag_without_effect",
            "warning",
            f"--kv-unified-per-slot {settings.per_slot} is more than a slot can have ({tokens(slots.cells)})",
            fix=f"-c {settings.per_slot * slots.num_slots}, or no -c at all",
            flag="--kv-unified-per-slot",
            value=settings.per_slot,
            cells=slots.cells,
        )


def _shared(settings: LlamaSettings, served: LlamaServed) -> Diagnostic:
    slots = served.slots
    how = "without -np there are four slots, which" if settings.auto_slots else f"{slots.num_slots} slots"
    return remark(
        "pool_shared",
        "warning" if settings.auto_slots else "info",
        f"{how} share one cache of {tokens(slots.n_ctx)} tokens: each may take up to "
        f"{tokens(served.slot_len)}, all together no more than the cache holds",
        fix=f"-np 1 for one request at a time, -c {served.slot_len * slots.num_slots} for "
        f"{slots.num_slots} of full length at once",
        flag="--parallel",
        num_slots=slots.num_slots,
        kv_cells=slots.n_ctx,
        context_per_request=served.slot_len,
    )


def _divided(settings: LlamaSettings, served: LlamaServed) -> Diagnostic:
    slots = served.slots
    total = settings.ctx or slots.n_ctx
    return remark(
        "slot_context_divided",
        "warning",
        f"-np {slots.num_slots} divides -c {total}: each request has {tokens(slots.cells)} tokens, prompt "
        "and answer together",
        fix=f"-c {total * slots.num_slots} for {tokens(total)} each",
        flag="--parallel",
        ctx_size=total,
        num_slots=slots.num_slots,
        context_per_request=slots.cells,
    )
