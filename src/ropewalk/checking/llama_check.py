"""Judges a llama-server command: parsed as the server parses it, resolved as it allocates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ropewalk.checking import llama_argv as llama_words
from ropewalk.checking.analysis import Analysis
from ropewalk.checking.argv import Command
from ropewalk.checking.diagnostics import Diagnostic, remark, unpriced
from ropewalk.checking.flags import FlagSet
from ropewalk.checking.llama_memory import (
    cache_type_remarks,
    host_cache_bytes,
    host_cache_remarks,
    memory_for,
)
from ropewalk.checking.llama_rope import length_remarks
from ropewalk.checking.llama_settings import LlamaServed, LlamaSettings, serve, settings_of
from ropewalk.checking.llama_slots import slot_remarks
from ropewalk.checking.records import Resolved
from ropewalk.checking.unknown_flags import absent_flags
from ropewalk.errors import CheckpointError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.machine import Machine
from ropewalk.planner.records import Memory
from ropewalk.units import MIB


def analyze(
    command: Command, inspection: Inspection | None, *, flags: FlagSet, version: str | None, machine: Machine
) -> Analysis:
    """What llama-server makes of the command, and everything that is to be said about it."""
    given = llama_words.read_words(command.arguments, command.engine_env, flags)
    parsed, remarks = llama_words.read_values(given, flags, version)
    remarks += absent_flags(given, flags, version)
    settings = settings_of(parsed)
    served = serve(settings, inspection, version=version)
    memory = None
    if served and inspection:
        try:
            memory = memory_for(settings, served, inspection, machine)
        except CheckpointError as error:
            remarks.append(unpriced(error))
    remarks += _numbers(parsed)
    remarks += cache_type_remarks(settings, inspection)
    if served:
        remarks += slot_remarks(settings, served)
    if served and inspection:
        remarks += length_remarks(settings, served, inspection, version=version)
    remarks += host_cache_remarks(settings, memory)
    return Analysis(
        given=given,
        model=model_of(parsed),
        parsed=parsed,
        resolved=_resolved(settings, served, inspection, memory),
        remarks=tuple(remarks),
    )


def model_of(parsed: dict[str, Any]) -> str | None:
    """The file, or the repository that it is taken from."""
    return parsed.get("--model") or parsed.get("--hf-repo") or parsed.get("--docker-repo")


def _numbers(parsed: dict[str, Any]) -> Iterator[Diagnostic]:
    """Numbers that are read and make no sense."""
    context = parsed.get("--ctx-size")
    if isinstance(context, int) and context < 0:
        yield remark(
            "bad_value",
            "error",
            f"-c {context} is read as an unsigned number: the server asks for a cache of 2^32 tokens",
            fix="-c 0 for the trained context",
            edits={"--ctx-size": ("-c", "0")},
            flag="--ctx-size",
            value=context,
        )
    if parsed.get("--parallel") == 0:
        yield remark(
            "bad_value",
            "error",
            "-np 0 is refused; -1 (the default) makes four slots that share one cache",
            fix="-np 1",
            edits={"--parallel": ("-np", "1")},
            flag="--parallel",
            value=0,
        )


def _resolved(
    settings: LlamaSettings,
    served: LlamaServed | None,
    inspection: Inspection | None,
    memory: Memory | None,
) -> Resolved:
    host = settings.cache_ram_mib * MIB if memory is None else host_cache_bytes(memory)
    if served is None:
        return Resolved(num_sequences=settings.num_slots, host_cache_bytes=max(host, 0))
    return Resolved(
        context_per_request=served.slot_len,
        num_sequences=settings.num_slots,
        kv_cells=served.slots.n_ctx,
        kv_bytes=memory.kv.reserved_bytes if memory else None,
        trained_context=served.context_length,
        supported_context=inspection.value("supported_context") if inspection else None,
        derived_max_len=served.trained_len,
        rope=_rope(settings, served, inspection),
        host_cache_bytes=max(host, 0),
        memory=memory,
    )


def _rope(
    settings: LlamaSettings, served: LlamaServed, inspection: Inspection | None
) -> dict[str, Any] | None:
    """The scaling in effect, None without any."""
    effective = served.effective
    baked = (inspection.value("rope_scaling") if inspection else None) or {}
    if effective.factor == 1.0 and settings.freq_base is None and not baked:
        return None
    return {
        "type": effective.type if effective.factor != 1.0 else baked.get("rope_type", "default"),
        "factor": effective.factor if effective.factor != 1.0 else baked.get("factor"),
        "original_max_position_embeddings": effective.original or served.context_length,
        "rope_theta": settings.freq_base or (inspection.value("rope_theta") if inspection else None),
    }
