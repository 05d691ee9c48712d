"""Judges a llama-server command: parsed as the server parses it, resolved as it allocates."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ropewalk.checking import llama_argv
from ropewalk.checking.analysis import Analysis
from ropewalk.checking.command import Command
from ropewalk.checking.diagnostics import Diagnostic, diagnostic, memory_unknown, set_flag
from ropewalk.checking.flags import flag_set
from ropewalk.checking.llama_fitting import fitted, placement_diagnostics, placement_repair
from ropewalk.checking.llama_memory import (
    cache_type_diagnostics,
    host_cache_bytes,
    host_cache_diagnostics,
    memory_diagnostics,
    memory_for,
    slow_cache,
    split_diagnostics,
)
from ropewalk.checking.llama_rope import length_diagnostics
from ropewalk.checking.llama_settings import LlamaServed, LlamaSettings, serve, settings_of
from ropewalk.checking.llama_slots import slot_diagnostics
from ropewalk.checking.records import Resolved
from ropewalk.checking.unknown_flags import absent_flags
from ropewalk.errors import CheckpointError, UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.planner.machine import Machine
from ropewalk.planner.records import Memory
from ropewalk.units import MIB


def rules_version() -> str:
    """The build whose options and rules are known."""
    return flag_set("llama-server").version


def model_of(command: Command) -> str | None:
    """The file, or the repository that it is taken from."""
    flags = flag_set("llama-server")
    parsed, _ = llama_argv.read_values(
        llama_argv.read_words(command.arguments, command.engine_env, flags), flags, None
    )
    return _model(parsed)


def analyze(
    command: Command, inspection: Inspection | None, *, version: str | None, machine: Machine
) -> Analysis:
    """What llama-server makes of the command, and everything that is wrong with it."""
    flags = flag_set("llama-server")
    options = llama_argv.read_words(command.arguments, command.engine_env, flags)
    parsed, diagnostics = llama_argv.read_values(options, flags, version)
    diagnostics += absent_flags(options, flags, version)
    settings = settings_of(parsed)
    served = serve(settings, inspection, version=version)
    on_gpu = _on_gpu(settings, command, machine)
    found = fit = None
    if served and inspection:
        try:
            fit = fitted(settings, served, inspection, machine, on_gpu=on_gpu, version=version)
            if fit and fit.context:
                fixed = replace(settings, ctx=fit.context.tokens)
                served = serve(fixed, inspection, version=version) or served
            placed = replace(settings, request=fit.placed) if fit and fit.placed else settings
            found = memory_for(placed, served, inspection, machine, on_gpu=on_gpu, version=version)
        except (CheckpointError, UsageError) as error:
            diagnostics.append(memory_unknown(error))
    memory = found.memory if found else None
    if inspection is not None:
        diagnostics += _encoder(parsed, inspection)
    diagnostics += split_diagnostics(settings, inspection, on_gpu=on_gpu, version=version)
    diagnostics += _numbers(parsed)
    diagnostics += cache_type_diagnostics(settings, inspection, on_gpu=on_gpu, version=version)
    if served:
        left = fit.context if fit else None
        diagnostics += slot_diagnostics(settings, served, fitted=left, version=version)
        if on_gpu is False:
            diagnostics += slow_cache(settings, served)
    if served and inspection:
        diagnostics += length_diagnostics(settings, served, inspection, version=version)
    if fit:
        diagnostics += placement_diagnostics(fit)
    if served and found and not (fit and fit.holds):
        placing = None
        if inspection and on_gpu and found.fits is False:
            placing = placement_repair(settings, served, inspection, machine, version=version)
        diagnostics += memory_diagnostics(served, found, placing)
    diagnostics += host_cache_diagnostics(settings, memory)
    return Analysis(
        options=options,
        model=_model(parsed),
        parsed=parsed,
        resolved=_resolved(settings, served, inspection, memory),
        diagnostics=tuple(diagnostics),
        memory_judged=found is not None and (found.fits is not None or (fit is not None and fit.holds)),
    )


def _model(parsed: dict[str, Any]) -> str | None:
    repository, file = parsed.get("--hf-repo"), parsed.get("--hf-file")
    named = f"{repository}:{file}" if repository and file and ":" not in repository else repository
    return parsed.get("--model") or named or parsed.get("--docker-repo")


def _on_gpu(settings: LlamaSettings, command: Command, machine: Machine) -> bool | None:
    """Whether layers are on a GPU, as the machine, the flags or the image say; None where none does."""
    if machine.kind is not None:
        return machine.kind == "gpu" and settings.gpu_layers != 0
    if settings.on_gpu is None and command.on_cpu is not None:
        return not command.on_cpu
    return settings.on_gpu


def _encoder(parsed: dict[str, Any], inspection: Inspection) -> Iterator[Diagnostic]:
    """A model without a cache generates nothing: the server stops, but for embeddings (b11549)."""
    serves_vectors = any(parsed.get(flag) for flag in ("--embedding", "--embeddings", "--reranking"))
    kinds = {group.kind for group in inspection.layers}
    if kinds == {"none"} and inspection.value("num_attention_heads") and not serves_vectors:
        yield diagnostic(
            "encoder_only",
            "error",
            f"{inspection.value('model_type')} is an encoder and generates no text: llama-server stops",
            fix="--embedding, to serve its vectors",
            repair=set_flag("--embedding"),
            flag="--model",
        )


def _numbers(parsed: dict[str, Any]) -> Iterator[Diagnostic]:
    """Numbers that are read and make no sense."""
    context = parsed.get("--ctx-size")
    if isinstance(context, int) and context < 0:
        yield diagnostic(
            "bad_value",
            "error",
            f"-c {context} is read as an unsigned number: the server asks for a cache of 2^32 tokens",
            fix="-c 0 for the trained context",
            repair=set_flag("--ctx-size", 0, short="-c"),
            value=context,
        )
    if parsed.get("--parallel") == 0:
        yield diagnostic(
            "bad_value",
            "error",
            "-np 0 is refused; -1 (the default) makes four slots that share one cache",
            repair=set_flag("--parallel", 1, short="-np"),
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
