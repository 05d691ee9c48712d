"""A parsed llama-server command as settings with its defaults, and what the server allocates for them.

Defaults of llama.cpp b11434, common/common.h and tools/server/server.cpp:168.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from ropewalk.inspector.records import Inspection
from ropewalk.inspector.rope_blocks import full_block
from ropewalk.planner.engines import llama_builds as builds
from ropewalk.planner.engines.llama_fit import (
    DEFAULT_FLOOR,
    DEFAULT_MARGIN,
    PLACING_FLAGS,
    FitEffect,
    fit_effect,
)
from ropewalk.planner.engines.llama_memory import CACHE_TYPES
from ropewalk.planner.engines.llama_slots import Slots, resolve_slots
from ropewalk.planner.records import FlashAttention, PlanRequest, SplitMode
from ropewalk.planner.rope.trained_context import (
    LlamaRope,
    freq_scale,
    shipped_rope,
    trained_context,
    with_flags,
)
from ropewalk.units import MIB

AUTO_SLOTS = 4
_CACHE_RAM_MIB = 8192  # the prompt cache, kept in host memory
_CHECKPOINTS = 32  # per slot
_DRAFTED = 3  # --spec-draft-n-max
_ON = frozenset({"on", "enabled", "true", "1"})
_OFF = frozenset({"off", "disabled", "false", "0"})


@dataclass(frozen=True, slots=True)
class LlamaSettings:
    """What the flags say; ``ctx`` is None where ``-c`` is not given, 0 asks for the trained context.

    ``num_slots`` and ``unified`` are resolved: without ``-np`` there are four slots that share one cache.
    ``split_given``: ``--no-kv-unified`` stands there. ``scale`` is the frequency scale, None where no flag
    sets it. ``fit_floor`` is the shortest context that ``--fit`` comes down to, ``fit_margins`` what it
    leaves free of each device; ``placed`` are the options given that place layers and experts. ``on_gpu`` is
    what the command says of devices, None where it says nothing.
    ``request`` is what is planned, but for lengths and slots.
    """

    ctx: int | None
    num_slots: int
    auto_slots: bool
    unified: bool
    split_given: bool
    per_slot: int
    batch: int | None
    ubatch: int | None
    swa_full: bool
    fit: bool
    fit_given: bool
    fit_floor: int
    fit_margins: tuple[int, ...]
    placed: tuple[str, ...]
    on_gpu: bool | None
    flash_attn: FlashAttention
    key_type: str
    value_type: str
    scaling: Literal["none", "linear", "yarn"] | None
    scale: float | None
    original: int | None
    freq_base: float | None
    ext_factor: float | None
    attn_factor: float | None
    cache_ram_mib: int
    cache_ram_given: bool
    checkpoints: int
    gpu_layers: int | None
    request: PlanRequest
    kv_overrides: Mapping[str, str] = field(default_factory=dict)

    def fit_effect(self, version: str | None) -> FitEffect:
        """What ``--fit`` may change of this command, where the build has it."""
        return fit_effect(
            fit=self.fit and builds.FIT.maybe(version),
            context_given=self.ctx is not None,
            placed_by=self.placed,
            split_mode=self.request.split_mode,
        )


def settings_of(parsed: dict[str, Any]) -> LlamaSettings:
    """The settings that allocation and lengths depend on; values that the server refuses count as unset."""
    slots = parsed.get("--parallel")
    auto_slots = not isinstance(slots, int) or slots <= 0
    return LlamaSettings(
        ctx=_count(parsed, "--ctx-size"),
        num_slots=AUTO_SLOTS if auto_slots else cast(int, slots),
        auto_slots=auto_slots,
        unified=auto_slots or bool(parsed.get("--kv-unified")),
        split_given=parsed.get("--kv-unified") is False,
        per_slot=_count(parsed, "--kv-unified-per-slot") or 0,
        batch=_count(parsed, "--batch-size") or None,
        ubatch=_count(parsed, "--ubatch-size") or None,
        swa_full=bool(parsed.get("--swa-full")),
        fit=parsed.get("--fit") not in _OFF,
        fit_given=parsed.get("--fit") in _ON,
        fit_floor=_count(parsed, "--fit-ctx") or DEFAULT_FLOOR,
        fit_margins=_margins(parsed.get("--fit-target")),
        placed=tuple(flag for flag in PLACING_FLAGS if flag in parsed and parsed[flag] not in ("auto", "-1")),
        on_gpu=_on_gpu(parsed),
        flash_attn=_flash(parsed.get("--flash-attn")),
        key_type=_cache_type(parsed, "--cache-type-k"),
        value_type=_cache_type(parsed, "--cache-type-v"),
        scaling=_scaling(parsed),
        scale=_scale(parsed),
        original=_count(parsed, "--yarn-orig-ctx") or None,
        freq_base=_positive(parsed, "--rope-freq-base"),
        ext_factor=_fraction(parsed, "--yarn-ext-factor"),
        attn_factor=_fraction(parsed, "--yarn-attn-factor"),
        cache_ram_given="--cache-ram" in parsed,
        cache_ram_mib=_integer(parsed, "--cache-ram", _CACHE_RAM_MIB),
        checkpoints=_integer(parsed, "--ctx-checkpoints", _CHECKPOINTS),
        gpu_layers=_layers(parsed),
        request=_request(parsed),
        kv_overrides=kv_overrides(str(parsed.get("--override-kv", ""))),
    )


def _request(parsed: Mapping[str, Any]) -> PlanRequest:
    """Types of the cache and places of the layers; values that the server refuses count as unset."""
    shares = _shares(parsed.get("--tensor-split"))
    devices = str(parsed.get("--device", "")).split(",")
    mode = parsed.get("--split-mode", "layer")
    return PlanRequest(
        context_len=1,
        engine="llama-server",
        cache_type_k=_cache_type(parsed, "--cache-type-k"),
        cache_type_v=_cache_type(parsed, "--cache-type-v"),
        flash_attn=_flash(parsed.get("--flash-attn")),
        gpu_layers=_layers(parsed),
        cache_ram_bytes=max(_integer(parsed, "--cache-ram", _CACHE_RAM_MIB), 0) * MIB,
        context_checkpoints=max(_integer(parsed, "--ctx-checkpoints", _CHECKPOINTS), 0),
        n_cpu_moe=_count(parsed, "--n-cpu-moe"),
        cpu_moe=bool(parsed.get("--cpu-moe")),
        override_tensor=tuple(filter(None, str(parsed.get("--override-tensor", "")).split(","))),
        split_mode=cast("SplitMode", mode) if mode in ("layer", "none", "row", "tensor") else "layer",
        main_gpu=_count(parsed, "--main-gpu") or 0,
        tensor_split=shares,
        gpus_per_node=len(shares) or (len(devices) if len(devices) > 1 else None),
        mtp=_drafted(parsed),
    )


def _margins(value: object) -> tuple[int, ...]:
    """``--fit-target`` in MiB, one for all devices or one each."""
    sizes = [size for size in re.split(r"[,/]", str(value or "")) if size.isdecimal() and len(size) < 12]
    return tuple(int(size) * MIB for size in sizes) or (DEFAULT_MARGIN,)


def _shares(value: object) -> tuple[float, ...]:
    """``--tensor-split 3,1`` or ``3/1``."""
    try:
        return tuple(float(share) for share in re.split(r"[,/]", str(value)) if share) if value else ()
    except ValueError:
        return ()


def _drafted(parsed: Mapping[str, Any]) -> int:
    """Tokens that the model's own MTP block drafts, 0 where nothing or something else does."""
    if "draft-mtp" not in str(parsed.get("--spec-type", "")).split(","):
        return 0
    return _count(parsed, "--spec-draft-n-max") or _DRAFTED


def kv_overrides(text: str) -> dict[str, str]:
    """``KEY=TYPE:VALUE,...`` by key, the type and the value as written."""
    items = (item.partition("=") for item in text.split(",") if item)
    return {key: typed for key, _, typed in items}


@dataclass(frozen=True, slots=True)
class LlamaServed:
    """What a server with these settings has: ``slot_len`` is the longest request of one slot.

    ``context_length`` is the checkpoint's own, before the flags; ``trained_len`` what slots are capped at
    with them. ``wanted_len`` is what one slot would have without that cap, as asked for, before padding.
    """

    slots: Slots
    context_length: int | None
    trained_len: int | None
    shipped: LlamaRope
    effective: LlamaRope
    wanted_len: int
    slot_len: int


def serve(
    settings: LlamaSettings, inspection: Inspection | None, *, version: str | None
) -> LlamaServed | None:
    """Resolve the slots; None where the context comes from a checkpoint that is not at hand."""
    block = full_block(inspection.value("rope_parameters")) if inspection else {}
    shipped = shipped_rope(block)
    effective = with_flags(
        shipped, scaling=settings.scaling, scale=settings.scale, original=settings.original
    )
    own = inspection.value("max_position_embeddings") if inspection else None
    declared = _declared(settings, inspection) if inspection else None
    trained = trained_context(declared, shipped, effective, version=version) if declared else None
    total = _total(settings, declared, trained)
    if total is None:
        return None
    slots = resolve_slots(
        total,
        num_slots=settings.num_slots,
        unified=settings.unified,
        batch=settings.batch,
        ubatch=settings.ubatch,
        swa_full=settings.swa_full,
    )
    caps = [cap for cap in (settings.per_slot, trained) if cap]
    share = total if settings.unified else -(-total // settings.num_slots)
    return LlamaServed(
        slots=slots,
        context_length=own,
        trained_len=trained,
        shipped=shipped,
        effective=effective,
        wanted_len=min(share, settings.per_slot or share),
        slot_len=min([slots.cells, *caps]),
    )


def _declared(settings: LlamaSettings, inspection: Inspection) -> int | None:
    """The checkpoint's length, or what ``--override-kv`` puts in its place."""
    kind, _, value = settings.kv_overrides.get(context_key(inspection), "").partition(":")
    if kind == "int" and value.isdecimal():
        return int(value)
    own = inspection.value("max_position_embeddings")
    return own if isinstance(own, int) else None


def _total(settings: LlamaSettings, declared: int | None, trained: int | None) -> int | None:
    """Tokens of all slots together: ``-c``, else per slot, else the trained context.

    With ``--fit`` a first context is made to measure, which leaves the re-derived length behind.
    """
    if settings.ctx:
        return settings.ctx
    if settings.per_slot and settings.ctx is None:
        return settings.per_slot * settings.num_slots
    return trained if settings.fit else declared


def context_key(inspection: Inspection) -> str:
    """The metadata key of the declared length."""
    fact = inspection.facts.get("max_position_embeddings")
    detail = fact.detail if fact else None
    if detail and detail.endswith(".context_length"):
        return detail
    return f"{inspection.value('model_type')}.context_length"


def _count(parsed: Mapping[str, Any], name: str) -> int | None:
    value = parsed.get(name)
    return value if isinstance(value, int) and value >= 0 else None


def _integer(parsed: Mapping[str, Any], name: str, default: int) -> int:
    value = parsed.get(name)
    return value if isinstance(value, int) else default


def _positive(parsed: Mapping[str, Any], name: str) -> float | None:
    value = parsed.get(name)
    return value if isinstance(value, float) and value > 0 else None


def _fraction(parsed: Mapping[str, Any], name: str) -> float | None:
    """A number that is unset where it is negative."""
    value = parsed.get(name)
    return value if isinstance(value, float) and value >= 0 else None


def _flash(value: Any) -> FlashAttention:
    return "on" if value in _ON else "off" if value in _OFF else "auto"


def _cache_type(parsed: Mapping[str, Any], name: str) -> str:
    value = parsed.get(name)
    return value if value in CACHE_TYPES else "f16"


def _scaling(parsed: Mapping[str, Any]) -> Literal["none", "linear", "yarn"] | None:
    value = parsed.get("--rope-scaling")
    return value if value in ("none", "linear", "yarn") else None


def _scale(parsed: dict[str, Any]) -> float | None:
    """Whichever of the two flags stands last sets the one number."""
    for name in reversed(parsed):
        value = _positive(parsed, name)
        if value and name in ("--rope-scale", "--rope-freq-scale"):
            return freq_scale(value) if name == "--rope-scale" else value
    return None


def _on_gpu(parsed: Mapping[str, Any]) -> bool | None:
    """Whether layers are to go to a GPU, where the command says."""
    if parsed.get("--device") == "none" or _layers(parsed) == 0:
        return False
    placing = [flag for flag in (*PLACING_FLAGS, "--main-gpu", "--fit-target") if flag in parsed]
    return True if placing or "--device" in parsed else None


def _layers(parsed: Mapping[str, Any]) -> int | None:
    text = str(parsed.get("--gpu-layers", ""))
    return int(text) if text.isdecimal() else None
