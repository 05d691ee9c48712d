"""The verdict of a plan in words, for every front end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

from ropewalk.findings import Finding
from ropewalk.planner.records import Fit, Memory, Plan
from ropewalk.report.figures import plural, span
from ropewalk.report.page import Tone
from ropewalk.units import format_bytes, format_tokens

_GPUS = ("gpu", "cuda")


@dataclass(frozen=True, slots=True)
class Verdict:
    """FITS, DOES NOT FIT, NEEDS (no budget was given), WRONG or REFUSED, and the figures behind it."""

    word: str
    tone: Tone
    parts: tuple[str, ...]


def verdict(plan: Plan) -> Verdict:
    """What is to be said first about a plan."""
    asked = f"{format_tokens(plan.context_len)} tokens x {plural(plan.request.num_sequences, 'sequence')}"
    if plan.rope.decision == "refuse":
        return Verdict("REFUSED", "bad", (asked, *_largest(plan.fit)))
    needs = span(needed_low(plan.memory), plan.memory.high_bytes, to=" to ")
    fit = plan.fit
    if wrong := [finding for finding in plan.findings if _is_wrong(finding)]:
        said = f"{plural(len(wrong), 'error')}, see the findings"
        return Verdict(
            "WRONG", "bad", (asked, f"{said}: the figures rest on what is wrong" if plan.broken else said)
        )
    if fit.budget_bytes is None:
        return Verdict("NEEDS", "strong", (f"{needs} for {asked} on {_devices(plan)}",))
    on = f"{asked} on {_budget(plan, fit.budget_bytes)}"
    if not fit.fits:
        return Verdict("DOES NOT FIT", "bad", (on, f"needs {needs}", *_largest(fit)))
    known = plan.supported_context or plan.native_context
    if known is not None and plan.context_len > known:
        return Verdict("FITS MEMORY, BEYOND TRAINING", "warn", (on, *_spare(plan), *_largest(fit)))
    return Verdict("FITS", "good", (on, *_spare(plan), *_largest(fit)))


def _is_wrong(finding: Finding) -> bool:
    """An error of the checkpoint or of the request; that it is too large is a verdict of its own."""
    return finding.severity == "error" and finding.code != "does_not_fit"


def needed_low(memory: Memory) -> int:
    """The lower end of all terms together."""
    return sum(term.low_bytes for term in memory.terms)


def flops(count: int) -> str:
    """``6.9 PFLOP``."""
    for unit, name in ((10**15, "PFLOP"), (10**12, "TFLOP"), (10**9, "GFLOP")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count:,} FLOP"


def _devices(plan: Plan) -> str:
    """``a GPU``, ``the processor``, ``2 GPUs and the host``."""
    shares = plan.memory.per_device
    gpus = sum(share.device.startswith(_GPUS) for share in shares)
    if gpus == 0:
        return "the processor" if len(shares) == 1 else plural(len(shares), "device")
    if any(not share.device.startswith((*_GPUS, "cpu")) for share in shares):
        return plural(len(shares), "device")
    host = " and the host" if gpus < len(shares) else ""
    return f"{'a GPU' if gpus == 1 else plural(gpus, 'GPU')}{host}"


def _budget(plan: Plan, budget: int) -> str:
    """``a GPU of 48.00 GiB``, ``this machine's processor, 23.54 GiB``, ``2 x L40S of 44.39 GiB``."""
    shares = plan.memory.per_device
    nodes = plan.request.node_memory_bytes
    sizes = [nodes[share.place.node] if nodes and share.place else budget for share in shares]
    if len(set(sizes)) == 1:
        devices, host, _ = _devices(plan).partition(" and the host")
        named = _named(plan, devices)
        return f"{named}{',' if devices == 'the processor' else ' of'} {format_bytes(budget)}{host}"
    first, *others = [(len(list(alike)), format_bytes(size)) for size, alike in groupby(sizes)]
    words = [f"{first[0]} devices of {first[1]}", *(f"{count} of {size}" for count, size in others)]
    return " and ".join(words)


def _named(plan: Plan, devices: str) -> str:
    """The devices by the card's name, or as those of this machine."""
    fit, gpus = plan.fit, sum(share.device.startswith(_GPUS) for share in plan.memory.per_device)
    if plan.request.gpu and gpus:
        return f"{gpus} x {fit.device_name}"
    if fit.budget_from != "this_machine":
        return devices
    name = f" ({fit.device_name})" if gpus and fit.device_name else ""
    return f"this machine's {devices.removeprefix('the ').removeprefix('a ')}{name}"


def _spare(plan: Plan) -> tuple[str, ...]:
    """What is left of what the engine may use; only where one device holds everything."""
    usable = plan.fit.usable_bytes or plan.fit.budget_bytes
    if usable is None or len(plan.memory.per_device) > 1:
        return ()
    return (f"{span(usable - plan.memory.high_bytes, usable - needed_low(plan.memory), to=' to ')} to spare",)


def _largest(fit: Fit) -> tuple[str, ...]:
    said = []
    if fit.largest_context_len:
        ends = {"config": " (the config's limit)", "publisher": " (the longest described)"}
        limit = ends.get(fit.limited_by or "", "")
        said.append(f"largest context {format_tokens(fit.largest_context_len)} tokens{limit}")
    if fit.max_sequences:
        said.append(f"most sequences {fit.max_sequences:,}")
    return tuple(said)
