"""Findings about what vLLM stops at before it measures memory: items, drafting, adapters, offloaded weights.

The rules are those of :mod:`ropewalk.planner.engines.vllm_stops`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ropewalk.checking.diagnostics import Diagnostic, Repair, diagnostic, remove_flags, set_flag
from ropewalk.checking.vllm_drafting import CONFIG
from ropewalk.checking.vllm_memory import default_sequences
from ropewalk.checking.vllm_settings import VllmServed, VllmSettings
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines import vllm_versions as versions
from ropewalk.planner.engines.vllm_settings import batched_tokens
from ropewalk.planner.engines.vllm_stops import StartRefusal, stops
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.rope.versions import has

_LIMITS = "--limit-mm-per-prompt"


def option_diagnostics(settings: VllmSettings, parsed: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """Drafting that cannot be asked for so, and modes of states that have no effect or are gone."""
    if settings.drafting.problem is not None:
        yield diagnostic(
            "speculation_refused",
            "error",
            f"{CONFIG}: {settings.drafting.problem}: vLLM stops",
            fix="give it a method, a model where the method has one, and num_speculative_tokens",
            flag=CONFIG,
        )
    draft = settings.drafting.draft
    if draft is not None or not settings.drafting.priced:
        what = f"the draft {draft} is not read" if draft else "its way of drafting is not priced"
        yield diagnostic(
            "memory_unknown",
            "info",
            f"memory is not judged to the end: {what}",
            fix="ropewalk plan with --draft and --speculative",
            flag=CONFIG,
        )
    yield from _state_mode(settings, parsed)


def _state_mode(settings: VllmSettings, parsed: Mapping[str, Any]) -> Iterator[Diagnostic]:
    mode, flag = parsed.get("--mamba-cache-mode"), "--mamba-cache-mode"
    if mode == "all" and has(versions.STATES_GONE, settings.request.engine_version):
        yield diagnostic(
            "bad_value",
            "error",
            f"vLLM does not take {flag} all any more: it takes align, none",
            repair=set_flag(flag, "align"),
            value=mode,
        )
    elif mode in ("all", "align") and settings.request.prefix_caching is False:
        yield diagnostic(
            "flag_without_effect",
            "warning",
            f"{flag} {mode} without prefix caching: vLLM sets it to none",
            repair=remove_flags(flag),
            value=mode,
        )


def stop_diagnostics(
    settings: VllmSettings,
    served: VllmServed,
    parsed: Mapping[str, Any],
    inspection: Inspection,
    machine: Machine,
) -> Iterator[Diagnostic]:
    """Every reason of the engine's own to stop, on a GPU."""
    if settings.on_cpu or settings.drafting.problem is not None:
        return
    shape = shape_of(inspection)
    request = replace(settings.request, context_len=served.served_len)
    running = request.max_num_seqs or default_sequences(settings, machine)
    batched = batched_tokens(request, machine, shape=shape, num_sequences=running)
    for stop in stops(shape, request, batched=batched, running=running, without=_left_out(parsed)):
        repair = _repair(stop)
        yield diagnostic(
            stop.code,
            "error",
            f"vLLM stops: {stop.message}",
            repair=repair,
            fix=None if repair else _advice(stop),
            flag=stop.flag,
            least=stop.least,
        )


def _left_out(parsed: Mapping[str, Any]) -> frozenset[str]:
    """Kinds of items that the server takes none of."""
    limits = parsed.get(_LIMITS)
    if not isinstance(limits, Mapping):
        return frozenset()
    counts = {
        kind: limit.get("count") if isinstance(limit, Mapping) else limit for kind, limit in limits.items()
    }
    return frozenset(kind for kind, count in counts.items() if count == 0)


def _repair(stop: StartRefusal) -> Repair | None:
    if stop.least is not None:
        return set_flag(stop.flag, stop.least)
    return remove_flags(stop.flag) if stop.code == "cpu_offload_hybrid" else None


def _advice(stop: StartRefusal) -> str:
    if stop.code == "speculation_refused":
        return "another method, fewer tokens, more --max-num-batched-tokens or fewer --max-num-seqs"
    return "another --max-lora-rank, or more --max-num-batched-tokens"
