"""Memory of a llama-server command by the planner's own rules, and findings about cache types."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ropewalk.checking.diagnostics import NO_REPAIR, Diagnostic, Repair, diagnostic, set_flag
from ropewalk.checking.llama_settings import LlamaServed, LlamaSettings
from ropewalk.findings import Finding, Severity
from ropewalk.inspector.records import Inspection
from ropewalk.planner.engines import llama_builds as builds
from ropewalk.planner.engines import llama_server
from ropewalk.planner.engines.llama_attention import cpu_findings, kernel_findings, missing_kernel
from ropewalk.planner.engines.llama_memory import CACHE_TYPES
from ropewalk.planner.engines.llama_slots import Slots
from ropewalk.planner.engines.llama_split import WITHOUT_TENSOR
from ropewalk.planner.engines.rules import PlanningCase
from ropewalk.planner.fit import largest
from ropewalk.planner.machine import Machine
from ropewalk.planner.model import shape_of
from ropewalk.planner.records import Memory, PlanRequest
from ropewalk.planner.terms import MemoryEstimate, memory_of
from ropewalk.units import MIB, format_bytes
from ropewalk.units import format_tokens as tokens

_WITH_KERNEL = frozenset({"f16", "bf16", "q8_0", "q4_0"})  # in every default build, beside itself
_HOST_CACHES = ("prompt_cache", "context_checkpoints")


@dataclass(frozen=True, slots=True)
class LlamaMemory:
    """A server's memory. ``low_bytes`` and ``high_bytes`` are of the device that is held against
    ``budget_bytes``, without what fills up in host memory later; ``max_ctx`` is the largest ``-c`` that it
    holds at the upper end, None where even the least is too much."""

    memory: Memory
    low_bytes: int
    high_bytes: int
    budget_bytes: int | None
    max_ctx: int | None

    @property
    def fits(self) -> bool | None:
        """None where the budget is unknown or lies within the range."""
        if self.budget_bytes is None or self.low_bytes <= self.budget_bytes < self.high_bytes:
            return None
        return self.high_bytes <= self.budget_bytes


def memory_for(
    settings: LlamaSettings,
    served: LlamaServed,
    inspection: Inspection,
    machine: Machine,
    *,
    on_gpu: bool | None,
    version: str | None,
) -> LlamaMemory:
    """All memory terms of the server, term by term as in a plan; on the CPU where nothing names a GPU."""
    slots = served.slots
    request = planned_request(settings, slots, machine, on_gpu=bool(on_gpu), version=version)
    memory_model = llama_server.memory_model(
        PlanningCase(shape_of(inspection, mtp=request.mtp), request, machine)
    )

    def ends(n_ctx: int) -> tuple[int, int]:
        return _ends(memory_model.estimate_memory(max(n_ctx // slots.num_slots, 1), slots.num_slots))

    low, high = ends(slots.n_ctx)
    budget, longest = machine.memory_bytes, None
    if budget is not None and high > budget:
        step = 256 * slots.num_slots  # a slot's cells are padded to 256: one token more is 256 more for each
        most = largest(lambda n_ctx: ends(n_ctx)[1], budget, guess=slots.n_ctx, step=step)
        longest = (most or 0) // step * step or None
    estimate = memory_model.estimate_memory(request.context_len, request.num_sequences)
    return LlamaMemory(memory_of(estimate), low, high, budget, longest)


def planned_request(
    settings: LlamaSettings, slots: Slots, machine: Machine, *, on_gpu: bool, version: str | None
) -> PlanRequest:
    """What the command asks for, as a plan would; all cards of the machine where it names none."""
    num_gpus = settings.request.gpus_per_node or (machine.count if (machine.count or 1) > 1 else None)
    return replace(
        settings.request,
        context_len=max(
            slots.n_ctx // slots.num_slots, 1
        ),  # what is lost to rounding is less than the padding
        num_sequences=slots.num_slots,
        device="gpu" if on_gpu else "cpu",
        gpus_per_node=num_gpus if on_gpu else None,
        batch=slots.n_batch,
        ubatch=slots.n_ubatch,
        kv_unified=slots.unified,
        swa_full=slots.swa_full,
        engine_version=version,
    )


def _ends(estimate: MemoryEstimate) -> tuple[int, int]:
    """Low and high of the device that holds most: a GPU where there is one, else the host."""
    devices = [device for device in estimate.devices if not device.device.startswith("cpu")]
    sums = [
        (
            sum(term.low_bytes for term in device.terms if term.name not in _HOST_CACHES),
            sum(term.high_bytes for term in device.terms if term.name not in _HOST_CACHES),
        )
        for device in devices or estimate.devices
    ]
    return max(sums, key=lambda pair: pair[1])


def memory_diagnostics(
    served: LlamaServed, memory: LlamaMemory, placing: Repair | None
) -> Iterator[Diagnostic]:
    """A device that does not hold the server, or may not. ``placing`` is the placement that would fit."""
    budget, longest = memory.budget_bytes, memory.max_ctx
    if budget is None or memory.high_bytes <= budget:
        return
    size = f"{format_bytes(memory.low_bytes)} to {format_bytes(memory.high_bytes)}"
    ways = [f"-c {longest}"] if longest else []
    ways += [placing.text] if placing else []
    fix = ", or ".join(ways) or "a smaller model, or fewer layers on the device (-ngl)"
    repair = set_flag("--ctx-size", longest, short="-c") if longest else placing
    ends: dict[str, Any] = {
        "low_bytes": memory.low_bytes,
        "high_bytes": memory.high_bytes,
        "usable_bytes": budget,
    }
    needs = f"{size} are needed of {format_bytes(budget)}"
    if memory.low_bytes <= budget:
        message = f"{needs}: whether the server starts is not known"
        yield diagnostic(
            "memory_unknown", "warning", message, fix=fix, repair=repair, flag="--ctx-size", **ends
        )
        return
    yield diagnostic(
        "does_not_fit",
        "error",
        f"{size} are needed for {tokens(served.slots.n_ctx)} tokens, {format_bytes(budget)} are there"
        + (f"; {tokens(longest)} tokens would fit" if longest else ""),
        fix=fix,
        repair=repair,
        flag="--ctx-size",
        needed_bytes=memory.high_bytes,
        usable_bytes=budget,
        max_ctx_size=longest,
    )


def host_cache_bytes(memory: Memory) -> int:
    """What prompts and checkpoints may fill in host memory beside the cache of the slots."""
    return sum(term.bytes for term in memory.terms if term.name in _HOST_CACHES)


def host_cache_diagnostics(settings: LlamaSettings, memory: Memory | None) -> Iterator[Diagnostic]:
    """The prompt cache that nobody asked for."""
    if settings.cache_ram_mib == 0:
        return
    size = host_cache_bytes(memory) if memory else settings.cache_ram_mib * MIB
    limit = "without limit" if settings.cache_ram_mib < 0 else f"up to {format_bytes(size)}"
    yield diagnostic(
        "prompt_cache_memory",
        "warning" if settings.cache_ram_mib < 0 or not settings.cache_ram_given else "info",
        f"finished prompts and checkpoints are kept in host memory, {limit} beside all else (--cache-ram "
        f"{settings.cache_ram_mib} MiB, --ctx-checkpoints {settings.checkpoints} per slot)",
        fix="--cache-ram 0 -ctxcp 0, or a limit that the machine can spare",
        flag="--cache-ram",
        bytes=None if settings.cache_ram_mib < 0 else size,
    )


def cache_type_diagnostics(
    settings: LlamaSettings, inspection: Inspection | None, *, on_gpu: bool | None, version: str | None
) -> Iterator[Diagnostic]:
    """Cache types that the engine refuses (src/llama-context.cpp:3838-3873, b11434).

    ``on_gpu`` is None where it is not known.
    """
    key, value = CACHE_TYPES[settings.key_type], CACHE_TYPES[settings.value_type]
    if value.quantised and settings.flash_attn == "off":
        yield diagnostic(
            "cache_type_needs_flash_attention",
            "error",
            f"a quantised V cache ({value.name}) needs flash attention, which -fa off switches off",
            repair=set_flag("--flash-attn", "on", short="-fa"),
            flag="--cache-type-v",
            value=value.name,
            flash_attn=settings.flash_attn,
        )
    if inspection is None:
        return
    if on_gpu is not False:
        yield from _kernels(settings, inspection, on_gpu=on_gpu, version=version)
    if key.name != value.name and any(group.kind == "latent" for group in inspection.layers):
        yield _pairing(settings)
    if settings.flash_attn != "off":
        yield from _blocks(settings, inspection)


def _kernels(
    settings: LlamaSettings, inspection: Inspection, *, on_gpu: bool | None, version: str | None
) -> Iterator[Diagnostic]:
    """What the planner says of CUDA's kernels; where no GPU is certain, nothing stops."""
    key, value = CACHE_TYPES[settings.key_type], CACHE_TYPES[settings.value_type]
    missing = missing_kernel(shape_of(inspection), key, value, version)
    if missing is None or (on_gpu is None and key.name == value.name == "f16"):
        return
    kind = next((name for name in (value.name, key.name) if name in _WITH_KERNEL - {"f16"}), "q8_0")
    typed = key.name != value.name or key.name not in _WITH_KERNEL
    repair = set_flag("--cache-type-k", kind, short="-ctk") | set_flag("--cache-type-v", kind, short="-ctv")
    if not typed and value.quantised:  # the heads have none: f16 does without
        repair = set_flag("--cache-type-v", "f16", short="-ctv")
        if any(group.kind == "latent" for group in inspection.layers):  # K and V are of one type
            repair |= set_flag("--cache-type-k", "f16", short="-ctk")
    for finding in kernel_findings(missing, flash=settings.flash_attn, value=value):
        stops = finding.severity == "error"
        severity: Severity = "warning" if stops and on_gpu is None else finding.severity
        fixed = repair if typed or stops else NO_REPAIR
        fix = fixed.text if fixed.edits else "a build with all kernels (GGML_CUDA_FA_ALL_QUANTS), or -ngl 0"
        where = {**finding.where, "k": key.name, "v": value.name, "fix": fix}
        yield Diagnostic(Finding(finding.code, severity, finding.message, where), fixed)


def split_diagnostics(
    settings: LlamaSettings, inspection: Inspection | None, *, on_gpu: bool | None, version: str | None
) -> Iterator[Diagnostic]:
    """Split modes that stop the server: rows in CUDA's newer builds, tensors of some models."""
    mode = settings.request.split_mode
    why = fix = None
    if mode == "row" and on_gpu is not False and builds.ROW_GONE.surely(version):
        why, fix = "CUDA's builds have no buffers split by rows as of b9890 (#24216)", "tensor"
    kind = inspection.value("model_type") if inspection else None
    if mode == "tensor" and kind in WITHOUT_TENSOR:
        why, fix = f"there is no rule for the parts of {kind}", "layer"
    elif why and kind in WITHOUT_TENSOR:
        fix = "layer"
    if why and fix:
        yield diagnostic(
            "split_mode_unsupported",
            "error",
            f"the server stops at --split-mode {mode}: {why}",
            repair=set_flag("--split-mode", fix, short="-sm"),
            value=mode,
        )
    if mode == "tensor" and settings.flash_attn == "off":
        yield diagnostic(
            "split_mode_unsupported",
            "error",
            "--split-mode tensor needs flash attention, which -fa off switches off",
            repair=set_flag("--flash-attn", "on", short="-fa"),
            flash_attn="off",
        )


def slow_cache(settings: LlamaSettings, served: LlamaServed) -> Iterator[Diagnostic]:
    """A cache that makes long prompts slow on a processor."""
    key, value = CACHE_TYPES[settings.key_type], CACHE_TYPES[settings.value_type]
    for finding in cpu_findings(key, value, served.slot_len):
        where = {**finding.where, "flag": "--cache-type-k", "fix": "-ctk f16 -ctv f16 where they fit"}
        yield Diagnostic(Finding(finding.code, finding.severity, finding.message, where))


def _pairing(settings: LlamaSettings) -> Diagnostic:
    kind = settings.key_type if settings.key_type != "f16" else settings.value_type
    return diagnostic(
        "cache_types_differ",
        "error",
        f"latent attention keeps one row for keys and values: {settings.key_type} for K and "
        f"{settings.value_type} for V are refused",
        repair=set_flag("--cache-type-k", kind, short="-ctk")
        | set_flag("--cache-type-v", kind, short="-ctv"),
        flag="--cache-type-v",
        k=settings.key_type,
        v=settings.value_type,
    )


@dataclass(frozen=True, slots=True)
class _Side:
    flag: str
    short: str
    type: str
    dims: frozenset[int]


def _blocks(settings: LlamaSettings, inspection: Inspection) -> Iterator[Diagnostic]:
    """Heads that are no whole number of blocks."""
    layers = inspection.layers
    for side in (
        _Side("--cache-type-k", "-ctk", settings.key_type, frozenset(g.head_dim_k or 0 for g in layers)),
        _Side("--cache-type-v", "-ctv", settings.value_type, frozenset(g.head_dim_v or 0 for g in layers)),
    ):
        block_len = CACHE_TYPES[side.type].block_len
        odd = sorted(dim for dim in side.dims if dim % block_len)
        if odd:
            yield diagnostic(
                "cache_type_block_size",
                "error",
                f"{side.type} keeps blocks of {block_len} values, which do not divide heads of {odd[0]}",
                repair=set_flag(side.flag, "f16", short=side.short),
                value=side.type,
                block_len=block_len,
                head_dim=odd[0],
            )
