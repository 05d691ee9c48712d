"""What llama-server's ``--fit`` (on by default) changes of a start: the context where none is given, and the
placement where nothing of it is given.

Read in common/fit.cpp, llama.cpp b11434: first the context is reduced, then layers and experts are placed;
the second ends with a warning in the log alone where the command places anything itself. All of it goes by
what the devices have free, when the process has already taken its share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ropewalk.planner.engines import llama_builds as builds
from ropewalk.planner.engines.llama_slots import CELL_PAD
from ropewalk.planner.engines.rules import MemoryModel
from ropewalk.planner.records import MemoryTerm
from ropewalk.planner.terms import DeviceMemory
from ropewalk.units import MIB

DEFAULT_FLOOR = 4096  # --fit-ctx
DEFAULT_MARGIN = 1024 * MIB  # --fit-target
# What a command places itself with, in the order in which the fit looks at it (common/fit.cpp:463-485).
PLACING_FLAGS = ("--gpu-layers", "--tensor-split", "--override-tensor", "--cpu-moe", "--n-cpu-moe")
# What is kept in host memory later, and what the engine does not count among its buffers.
_UNCOUNTED = frozenset({"prompt_cache", "context_checkpoints", "projector"})
# Layers that one device more may waste, as a divisor: half of one, a sixth where there are experts.
_WASTED, _WASTED_EXPERTS = 2, 6

Pick = Callable[[MemoryTerm], int]
_PICKS: tuple[Pick, Pick, Pick] = (
    lambda term: term.low_bytes,
    lambda term: term.bytes,
    lambda term: term.high_bytes,
)


@dataclass(frozen=True, slots=True)
class FitEffect:
    """What the fit may change; ``stopped_by`` is the flag that keeps it from placing anything."""

    shrinks_context: bool
    places_layers: bool
    stopped_by: str | None


def fit_effect(
    *, fit: bool, context_given: bool, placed_by: tuple[str, ...], split_mode: str = "layer"
) -> FitEffect:
    """The effect on a command. ``placed_by`` are those of :data:`PLACING_FLAGS` that it has."""
    if not fit or split_mode == "tensor":
        return FitEffect(shrinks_context=False, places_layers=False, stopped_by=None)
    flag = next((flag for flag in PLACING_FLAGS if flag in placed_by), None)
    if flag is None and split_mode == "row":
        flag = "--split-mode"
    return FitEffect(shrinks_context=not context_given, places_layers=flag is None, stopped_by=flag)


@dataclass(frozen=True, slots=True)
class FitBounds:
    """What a start is fitted to. ``longest`` and ``floor`` are tokens of the whole cache, of which there are
    ``streams``; ``margins`` are bytes of each device in order, the last for all that follow. ``layers`` are
    those that ``-ngl`` counts."""

    longest: int
    num_sequences: int = 1
    streams: int = 1
    floor: int = DEFAULT_FLOOR
    margins: Sequence[int] = (DEFAULT_MARGIN,)
    layers: int = 0
    experts: bool = False
    version: str | None = None

    def margin(self, device: int) -> int:
        """What is to stay free on a device."""
        return self.margins[min(device, len(self.margins) - 1)]


@dataclass(frozen=True, slots=True)
class FittedContext:
    """Tokens of the whole cache that are left; ``low`` and ``high`` go by what the process and its buffers
    may take of a device."""

    low: int
    tokens: int
    high: int


def fitted_context(model: MemoryModel, bounds: FitBounds) -> FittedContext:
    """The context that the fit leaves: all of it, or what lies on the line between the memory of the floor
    and that of the longest."""
    floor, longest = (
        _devices(model, bounds, tokens) for tokens in (min(bounds.floor, bounds.longest), bounds.longest)
    )
    most, middle, least = (_on_the_line(longest, floor, bounds, pick) for pick in _PICKS)
    return FittedContext(least, middle, most)


def left_free(model: MemoryModel, bounds: FitBounds, context_len: int) -> int:
    """What the tightest device keeps beyond its margin with a cache of so many tokens, negative for what it
    lacks: a placement is taken where none lacks anything."""
    longest = _devices(model, bounds, bounds.longest)
    return _least_free(_devices(model, bounds, context_len), longest, bounds, _PICKS[1])


def _devices(model: MemoryModel, bounds: FitBounds, tokens: int) -> list[DeviceMemory]:
    """The devices that the fit looks at: those with a budget."""
    count = bounds.num_sequences
    estimated = model.estimate_memory(-(-tokens // count), count)
    return [device for device in estimated.devices if device.usable_bytes is not None]


def _least_free(
    devices: Sequence[DeviceMemory], longest: Sequence[DeviceMemory], bounds: FitBounds, pick: Pick
) -> int:
    return min(
        _target(device, bounds, number) - _used(device, longest[number], bounds, pick)
        for number, device in enumerate(devices)
    )


def _target(device: DeviceMemory, bounds: FitBounds, number: int) -> int:
    return (device.usable_bytes or 0) - bounds.margin(number)


def _used(device: DeviceMemory, longest: DeviceMemory, bounds: FitBounds, pick: Pick) -> int:
    """Weights, caches and buffers, the draft's as this build counts them; what a processor's process holds
    is no part of the memory that is compared."""
    process = ("process_overhead",) if device.device.startswith("cpu") else ()
    outside = {"draft_model", *_UNCOUNTED, *process}
    drafting = device if builds.DRAFT_FITTED.surely(bounds.version) else longest
    drafts = [term for term in drafting.terms if term.name == "draft_model"]
    counted = drafts if builds.DRAFT_RESERVED.maybe(bounds.version) else []
    own = [term for term in device.terms if term.name not in outside]
    return sum(pick(term) for term in (*own, *counted))


def _wasted(devices: Sequence[DeviceMemory], bounds: FitBounds) -> int:
    """Of several devices: only whole layers, or matrices of experts, can be assigned to each."""
    if len(devices) == 1:
        return 0
    weights = sum(term.bytes for device in devices for term in device.terms if term.name == "weights")
    each = weights // max(bounds.layers, 1)
    return (len(devices) + 1) * each // (_WASTED_EXPERTS if bounds.experts else _WASTED)


def _on_the_line(
    longest: Sequence[DeviceMemory], floor: Sequence[DeviceMemory], bounds: FitBounds, pick: Pick
) -> int:
    targets = sum(_target(device, bounds, number) for number, device in enumerate(longest))
    most, least = (
        sum(_used(device, longest[number], bounds, pick) for number, device in enumerate(devices))
        for devices in (longest, floor)
    )
    shortest = min(bounds.floor, bounds.longest)
    if targets >= most or _least_free(longest, longest, bounds, pick) >= 0 or shortest == bounds.longest:
        return bounds.longest
    spare = targets - _wasted(longest, bounds) - least
    if spare <= 0:
        return shortest
    context_len = shortest + (bounds.longest - shortest) * spare // max(most - least, 1)
    unit = CELL_PAD * (bounds.streams if builds.FIT_PER_SLOT.surely(bounds.version) else 1)
    return min(max(context_len - context_len % unit, shortest), bounds.longest)
