"""Judges a vLLM command: parsed as vLLM parses it, its overrides applied, its length derived."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from ropewalk.checking import vllm_argv as vllm_words
from ropewalk.checking.analysis import Analysis
from ropewalk.checking.argv import Command
from ropewalk.checking.diagnostics import Diagnostic, Edits, remark, unpriced
from ropewalk.checking.flags import FlagSet
from ropewalk.checking.lengths import reach
from ropewalk.checking.records import Resolved
from ropewalk.checking.unknown_flags import absent_flags
from ropewalk.checking.vllm_length import length_remarks
from ropewalk.checking.vllm_memory import VllmMemory, memory_for, memory_remarks, start_remarks
from ropewalk.checking.vllm_repair import ROPE_FLAGS, override_text, repaired
from ropewalk.checking.vllm_rope import rope_remarks
from ropewalk.checking.vllm_settings import VllmServed, VllmSettings, serve, settings_of
from ropewalk.errors import CheckpointError, UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.inspector.rope_blocks import type_of
from ropewalk.planner.machine import Machine

_AT_LEAST_ONE = (
    "--max-model-len", "--max-num-seqs", "--max-num-batched-tokens", "--tensor-parallel-size",
    "--pipeline-parallel-size", "--kv-cache-memory-bytes",
)  # fmt: skip


def analyze(
    command: Command, inspection: Inspection | None, *, flags: FlagSet, version: str | None, machine: Machine
) -> Analysis:
    """What vLLM makes of the command, and everything that is to be said about it."""
    given = vllm_words.read_words(command.arguments, flags)
    parsed, remarks = vllm_words.read_values(given, flags, version)
    remarks += _unjudged(parsed)
    settings = settings_of(parsed, command.engine_env, version=version)
    served = serve(settings, inspection, version=version) if inspection else None
    memory = None
    if served and inspection:
        try:
            memory = memory_for(settings, served, inspection, machine)
        except (CheckpointError, UsageError) as error:
            remarks.append(unpriced(error))
    absent = absent_flags(given, flags, version)
    if served and inspection:
        reached = reach(inspection, context_len=served.served_len, engine="vllm", version=version)
        edits = repaired(settings, inspection, reached, version=version)
        remarks += (_as_override(item, edits) for item in absent)
        remarks += rope_remarks(settings, served, inspection, edits)
        remarks += length_remarks(settings, served, reached.advice, edits)
    else:
        remarks += absent
    remarks += start_remarks(settings, served, parsed, machine)
    remarks += memory_remarks(settings, served, inspection, memory)
    return Analysis(
        given=given,
        model=model_of(parsed),
        parsed=parsed,
        resolved=_resolved(settings, served, inspection, memory),
        remarks=tuple(remarks),
    )


def model_of(parsed: dict[str, Any]) -> str | None:
    """The folder or repository that is served."""
    return parsed.get("--model")


def _as_override(item: Diagnostic, edits: Edits) -> Diagnostic:
    """A rope flag that is gone, with the override that says the same today."""
    if item.finding.where.get("flag") not in ROPE_FLAGS:
        return item
    where = {**item.finding.where, "fix": override_text(edits) or "remove the rope flags"}
    return Diagnostic(replace(item.finding, where=where), edits)


def _unjudged(parsed: dict[str, Any]) -> Iterator[Diagnostic]:
    """Settings that cannot be looked into."""
    for flag in _AT_LEAST_ONE:
        value = parsed.get(flag)
        if isinstance(value, int) and value < 1 and (flag, value) != ("--max-model-len", -1):
            yield remark(
                "bad_value",
                "error",
                f"{flag} {value}: it must be at least 1",
                fix=f"give {flag} a positive number",
                flag=flag,
                value=value,
            )
    overrides, path = parsed.get("--hf-overrides"), parsed.get("--config")
    if overrides is not None and not isinstance(overrides, dict | str):
        yield remark(
            "bad_value",
            "error",
            f"--hf-overrides {json.dumps(overrides)} is no JSON object: vLLM stops",
            fix="give it an object, or nothing",
            edits={"--hf-overrides": None},
            flag="--hf-overrides",
            value=overrides,
        )
    if path:
        yield remark(
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
    if settings.max_model_len == -1 and memory and memory.max_context_len:
        length = min(length, memory.max_context_len)
    return Resolved(
        context_per_request=length,
        num_sequences=settings.max_num_seqs,
        kv_cells=memory.size_tokens if memory else None,
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
