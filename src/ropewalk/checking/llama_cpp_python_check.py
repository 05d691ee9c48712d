"""Judges ``python -m llama_cpp.server``: its settings, and what llama.cpp makes of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ropewalk.checking.analysis import Analysis
from ropewalk.checking.command import Command
from ropewalk.checking.diagnostics import Diagnostic, diagnostic, memory_unknown
from ropewalk.checking.flags import FlagSet, flag_set
from ropewalk.checking.parsed_option import ParsedOption
from ropewalk.checking.records import Resolved
from ropewalk.checking.unknown_flags import unknown_flag
from ropewalk.errors import CheckpointError, UsageError
from ropewalk.inspector.readers.ggml_types import GGML_TYPES
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines import llama_cpp_python
from ropewalk.planner.engines.llama_memory import CACHE_TYPES
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import Memory, PlanRequest
from ropewalk.planner.terms import memory_of
from ropewalk.units import format_bytes
from ropewalk.units import format_tokens as tokens

_DEFAULT_CONTEXT = 2048  # llama_cpp/server/settings.py, 0.3.36
_TRUE = frozenset({"true", "1", "yes", "on", "t", "y"})  # pydantic's
_FALSE = frozenset({"false", "0", "no", "off", "f", "n"})
_TYPES = {str(number): kind.name.lower() for number, kind in GGML_TYPES.items()}


def rules_version() -> str:
    """The release whose settings are known."""
    return flag_set("llama-cpp-python").version


def model_of(command: Command) -> str | None:
    """The file that is served."""
    parsed, _ = _read(command, flag_set("llama-cpp-python"), None)
    model = parsed.get("--model")
    return model if isinstance(model, str) else None


def analyze(
    command: Command, inspection: Inspection | None, *, version: str | None, machine: Machine
) -> Analysis:
    """What the server makes of the command, and everything that is wrong with it."""
    flags = flag_set("llama-cpp-python")
    options = tuple(_options(command.arguments, flags))
    parsed, diagnostics = _read(command, flags, version)
    n_ctx = parsed.get("--n_ctx", _DEFAULT_CONTEXT)
    if n_ctx == 0:
        n_ctx = inspection.value("max_position_embeddings") if inspection else None
    memory, judged = None, False
    if inspection is not None and isinstance(n_ctx, int) and n_ctx > 0:
        diagnostics += _lengths(parsed, n_ctx, inspection)
        try:
            memory = _memory(parsed, n_ctx, inspection, machine)
        except (CheckpointError, UsageError) as error:
            diagnostics.append(memory_unknown(error))
        judged = memory is not None and machine.memory_bytes is not None
        if memory is not None and machine.memory_bytes is not None:
            diagnostics += _room(memory, machine.memory_bytes)
    return Analysis(
        options=options,
        model=model_of(command),
        parsed=parsed,
        resolved=Resolved(
            context_per_request=n_ctx if isinstance(n_ctx, int) else None,
            num_sequences=1,
            kv_cells=memory.kv.num_blocks if memory else None,
            kv_bytes=memory.kv.reserved_bytes if memory else None,
            trained_context=inspection.value("max_position_embeddings") if inspection else None,
            supported_context=inspection.value("supported_context") if inspection else None,
            memory=memory,
        ),
        diagnostics=tuple(diagnostics),
        memory_judged=judged,
    )


def _options(words: Sequence[str], flags: FlagSet) -> Iterator[ParsedOption]:
    """argparse, one value each: ``--n_ctx 4096`` or ``--n_ctx=4096``."""
    at = 0
    while at < len(words):
        spelled, equals, value = words[at].partition("=")
        flag = flags.find(spelled)
        end = at + 1
        if not equals and end < len(words) and not words[end].startswith("--"):
            value, end = words[end], end + 1
        given = (value,) if equals or end > at + 1 else ()
        yield ParsedOption(flag.name if flag else spelled, tuple(words[at:end]), given, flag)
        at = end


def _read(command: Command, flags: FlagSet, version: str | None) -> tuple[dict[str, Any], list[Diagnostic]]:
    parsed: dict[str, Any] = {}
    diagnostics: list[Diagnostic] = []
    for item in _options(command.arguments, flags):
        if item.flag is None:
            diagnostics.append(unknown_flag(item, item.name, flags, version))
            continue
        try:
            parsed[item.name] = _value(item)
        except ValueError:
            diagnostics.append(
                diagnostic(
                    "bad_value",
                    "error",
                    f"llama_cpp.server does not take {item.values[0] if item.values else 'nothing'!r} for "
                    f"{item.name}: a {item.flag.kind} is expected",
                    fix=f"give {item.name} a value of its kind",
                    flag=item.name,
                    value=item.values[0] if item.values else None,
                )
            )
    return parsed, diagnostics


def _value(item: ParsedOption) -> Any:
    """The value as the settings read it. Raises ValueError."""
    if item.flag is None or not item.values:
        raise ValueError(item.name)
    if item.flag.kind == "int":
        return int(item.text)
    if item.flag.kind == "float":
        return float(item.text)
    if item.flag.kind == "bool":
        if item.text.lower() not in _TRUE | _FALSE:
            raise ValueError(item.text)
        return item.text.lower() in _TRUE
    return str(item.text)


def _lengths(parsed: dict[str, Any], n_ctx: int, inspection: Inspection) -> Iterator[Diagnostic]:
    trained = inspection.value("max_position_embeddings")
    if "--n_ctx" not in parsed:
        yield diagnostic(
            "context_below_trained",
            "warning",
            f"without --n_ctx the server has {tokens(n_ctx)} tokens"
            + (f", not the {tokens(trained)} that the model was trained for" if trained else ""),
            fix=f"--n_ctx {trained}" if trained else "--n_ctx 0 for the trained context",
            flag="--n_ctx",
            context_len=n_ctx,
        )
    scaled = parsed.get("--rope_scaling_type", -1) > 0 or parsed.get("--rope_freq_scale", 0.0) not in (
        0.0,
        1.0,
    )
    if isinstance(trained, int) and n_ctx > trained and not scaled:
        yield diagnostic(
            "context_over_trained",
            "warning",
            f"{tokens(n_ctx)} tokens are served unscaled, {tokens(trained)} were trained",
            fix=f"--n_ctx {trained}",
            flag="--n_ctx",
            context_len=n_ctx,
            native_context=trained,
        )


def _memory(parsed: dict[str, Any], n_ctx: int, inspection: Inspection, machine: Machine) -> Memory:
    layers = parsed.get("--n_gpu_layers", 0)
    on_gpu = layers != 0 if machine.kind is None else machine.kind == "gpu"
    request = PlanRequest(
        context_len=n_ctx,
        engine="llama-cpp-python",
        cache_type_k=_cache_type(parsed, "--type_k"),
        cache_type_v=_cache_type(parsed, "--type_v"),
        device="gpu" if on_gpu else "cpu",
        batch=parsed.get("--n_batch"),
        ubatch=parsed.get("--n_ubatch"),
        flash_attn="on" if parsed.get("--flash_attn") else "off",
        gpu_layers=layers if layers >= 0 else None,
    )
    memory_model = llama_cpp_python.memory_model(PlanningCase(shape_of(inspection), request, machine))
    return memory_of(memory_model.estimate_memory(n_ctx, 1))


def _cache_type(parsed: dict[str, Any], name: str) -> str:
    kind = _TYPES.get(str(parsed.get(name)), "f16")
    return kind if kind in CACHE_TYPES else "f16"


def _room(memory: Memory, budget: int) -> Iterator[Diagnostic]:
    devices = [
        share for share in memory.per_device if not share.device.startswith("cpu")
    ] or memory.per_device
    needed = max(share.high_bytes or share.total_bytes for share in devices)
    if needed > budget:
        yield diagnostic(
            "does_not_fit",
            "error",
            f"up to {format_bytes(needed)} are needed, {format_bytes(budget)} are there",
            fix="a smaller --n_ctx",
            flag="--n_ctx",
            needed_bytes=needed,
            usable_bytes=budget,
        )
