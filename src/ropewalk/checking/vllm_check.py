"""Judges a vLLM command: parsed as vLLM parses it, its overrides applied, its length derived."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ropewalk.checking import vllm_argv
from ropewalk.checking.analysis import Analysis
from ropewalk.checking.command import Command
from ropewalk.checking.diagnostics import Diagnostic, Repair, diagnostic, memory_unknown, remove_flags
from ropewalk.checking.flags import flag_set
from ropewalk.checking.lengths import reach
from ropewalk.checking.records import Resolved
from ropewalk.checking.unknown_flags import absent_flags
from ropewalk.checking.vllm_length import length_diagnostics
from ropewalk.checking.vllm_memory import VllmMemory, memory_diagnostics, memory_for
from ropewalk.checking.vllm_repair import ROPE_FLAGS, override_text, rope_repair
from ropewalk.checking.vllm_rope import rope_diagnostics
from ropewalk.checking.vllm_settings import VllmServed, VllmSettings, serve, settings_of
from ropewalk.checking.vllm_start import rank_diagnostics, start_diagnostics
from ropewalk.checking.vllm_stops import option_diagnostics, stop_diagnostics
from ropewalk.errors import CheckpointError, UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.inspector.rope_blocks import type_of
from ropewalk.planner.machine import Machine

_AT_LEAST_ONE = (
    "--max-model-len", "--max-num-seqs", "--max-num-batched-tokens", "--tensor-parallel-size",
    "--pipeline-parallel-size", "--kv-cache-memory-bytes",
)  # fmt: skip


def rules_version() -> str:
    """The release whose options and rules are known."""
    return flag_set("vllm").version


def model_of(command: Command) -> str | None:
    """The folder or repository that is served."""
    flags = flag_set("vllm")
    parsed, _ = vllm_argv.read_values(vllm_argv.read_words(command.arguments, flags), flags, None)
    return parsed.get("--model")


def analyze(
    command: Command, inspection: Inspection | None, *, version: str | None, machine: Machine
) -> Analysis:
    """What vLLM makes of the command, and everything that is wrong with it."""
    flags = flag_set("vllm")
    options = vllm_argv.read_words(command.arguments, flags)
    parsed, diagnostics = vllm_argv.read_values(options, flags, version)
    diagnostics += _unjudged(parsed)
    settings = settings_of(
        parsed, command.engine_env, version=version, on_cpu=_runs_on_cpu(command, parsed, machine)
    )
    served = serve(settings, inspection, version=version) if inspection else None
    memory = None
    if served and inspection:
        try:
            memory = memory_for(settings, served, inspection, machine)
        except (CheckpointError, UsageError) as error:
            diagnostics.append(memory_unknown(error))
    absent = absent_flags(options, flags, version)
    if served and inspection:
        reached = reach(inspection, context_len=served.served_len, engine="vllm", version=version)
        repair = rope_repair(settings, inspection, reached, version=version)
        diagnostics += (_as_override(item, repair) for item in absent)
        diagnostics += rope_diagnostics(settings, served, inspection, repair)
        diagnostics += length_diagnostics(settings, served, reached.advice, repair)
    else:
        diagnostics += absent
    diagnostics += start_diagnostics(settings, served, parsed, machine)
    diagnostics += option_diagnostics(settings, parsed)
    if inspection is not None:
        diagnostics += rank_diagnostics(settings, inspection)
    if served and inspection and memory:
        diagnostics += stop_diagnostics(settings, served, parsed, inspection, machine)
    if served and memory:
        diagnostics += memory_diagnostics(settings, served, memory)
    return Analysis(
        options=options,
        model=parsed.get("--model"),
        parsed=parsed,
        resolved=_resolved(settings, served, inspection, memory),
        diagnostics=tuple(diagnostics),
        memory_judged=memory is not None and memory.is_judged and _is_priced(settings, memory),
    )


def _is_priced(settings: VllmSettings, memory: VllmMemory) -> bool:
    """Whether all that the server holds is priced: a draft of its own is not read, and only adds."""
    return settings.drafting.priced and (settings.drafting.draft is None or memory.refusal is not None)


def _runs_on_cpu(command: Command, parsed: Mapping[str, Any], machine: Machine) -> bool:
    """As the machine, the command or its image says; else vLLM is one for GPUs."""
    if machine.kind is not None:
        return machine.kind == "cpu"
    return parsed.get("--device") == "cpu" or bool(command.on_cpu)


def _as_override(item: Diagnostic, repair: Repair) -> Diagnostic:
    """A rope flag that is gone, with the override that says the same today."""
    if item.finding.where.get("flag") not in ROPE_FLAGS:
        return item
    where = {**item.finding.where, "fix": override_text(repair) or "remove the rope flags"}
    return Diagnostic(replace(item.finding, where=where), repair)


def _unjudged(parsed: dict[str, Any]) -> Iterator[Diagnostic]:
    """Settings that cannot be looked into."""
    for flag in _AT_LEAST_ONE:
        value = parsed.get(flag)
        if isinstance(value, int) and value < 1 and (flag, value) != ("--max-model-len", -1):
            yield diagnostic(
                "bad_value",
                "error",
                f"{flag} {value}: it must be at least 1",
                fix=f"give {flag} a positive number",
                flag=flag,
                value=value,
            )
    overrides, path = parsed.get("--hf-overrides"), parsed.get("--config")
    if overrides is not None and not isinstance(overrides, dict | str):
        yield diagnostic(
            "bad_value",
            "error",
            f"--hf-overrides {json.dumps(overrides)} is no JSON object: vLLM stops",
            fix="give it an object, or nothing",
            repair=remove_flags("--hf-overrides"),
            value=overrides,
        )
    if path:
        yield diagnostic(
            "config_file_not_read",
            "warning",
            f"what {path} sets is not judged: vLLM reads it before the command line",
            fix="put the settings on the command line to have them judged",
            flag="--config",
            value=path,
        )


def _resolved(
    settings: VllmSettings,
    served: VllmServed | None,
    inspection: Inspection | None,
    memory: VllmMemory | None,
) -> Resolved:
    if served is None or inspection is None:
        return Resolved(num_sequences=settings.max_num_seqs)
    ranks = settings.tensor_parallel * settings.pipeline_parallel
    fixed = settings.kv_cache_bytes
    needed = memory.memory.kv.reserved_bytes if memory else None
    length = served.served_len
    pool = memory.pool if memory else None
    if settings.max_model_len == -1 and memory and memory.longest:
        length = min(length, memory.longest)
    return Resolved(
        context_per_request=length,
        num_sequences=settings.max_num_seqs,
        kv_cells=pool.likely.tokens if memory and pool and memory.fixed else None,
        kv_bytes=needed if fixed is None else fixed * ranks,
        trained_context=inspection.value("max_position_embeddings"),
        supported_context=inspection.value("supported_context"),
        derived_max_len=served.derived_len,
        rope=_scaling(served),
        memory=memory.memory if memory else None,
    )


def _scaling(served: VllmServed) -> dict[str, Any] | None:
    """The scaling in effect, None without any."""
    block = served.block
    if type_of(block) == "default":
        return None
    return {
        "type": type_of(block),
        "factor": block.get("factor"),
        "original_max_position_embeddings": block.get("original_max_position_embeddings"),
        "rope_theta": block.get("rope_theta"),
    }
