"""Two checkpoints, plans, runs or logs side by side: only what differs.

Each becomes named values in sections; what both have is compared, so that a plan stands beside a log as well
as beside another plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from ropewalk.checking.foreign_log import ForeignLog
from ropewalk.findings import Finding
from ropewalk.inspector.records import Checkpoint, Inspection
from ropewalk.measuring.recall.summary import by_length
from ropewalk.measuring.records import Measurement, Trial
from ropewalk.planner.records import Plan
from ropewalk.serving.server_report import term_of

Kind = Literal["checkpoint", "plan", "run", "log"]
Sections = dict[str, dict[str, Any]]
_BLOCK = re.compile(r"(?<=\.)\d+(?=\.)")
_MOST = 200  # rows of a section


@dataclass(frozen=True, slots=True)
class Compared:
    """One side: what it is, and by what name it was asked for."""

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs; None where a side does not have it.

    A tensor stands for all of its name with ``*`` for the number of a block, ``count`` of them.
    """

    section: str
    name: str
    a: Any
    b: Any
    count: int = 1


@dataclass(frozen=True, slots=True)
class Differences:
    """What differs, section by section; ``same`` counts what is equal, ``findings`` say what was not
    compared."""

    a: Compared
    b: Compared
    differences: tuple[Difference, ...]
    same: int
    findings: tuple[Finding, ...] = ()
    schema: str = "ropewalk.comparison/1"

    @property
    def positive(self) -> bool:
        """Whether nothing differs."""
        return not self.differences


@dataclass(frozen=True, slots=True)
class Side:
    """What is compared of one side; ``checkpoint`` has its tensors."""

    compared: Compared
    sections: Sections
    checkpoint: Checkpoint | None = None


def checkpoint_side(name: str, checkpoint: Checkpoint, inspection: Inspection) -> Side:
    """Facts, sizes and findings of a checkpoint, and what its file says of itself."""
    summary = inspection.checkpoint
    sizes = ("format", "kind", "num_tensors", "tensor_bytes", "stored_elements", "parameters")
    return Side(
        Compared("checkpoint", name),
        {
            "checkpoint": {field: getattr(summary, field) for field in sizes},
            "facts": {fact: inspection.value(fact) for fact in inspection.facts},
            "keys": {key: value for key, value in (checkpoint.gguf or {}).items() if _is_plain(value)},
            "findings": _codes(inspection.findings),
        },
        checkpoint,
    )


def plan_side(name: str, plan: Plan) -> Side:
    """What was asked, the rope, every memory term, what fits, the speed, the words of the command."""
    memory = {term.name: _range(term.low_bytes, term.high_bytes) for term in plan.memory.terms}
    low = sum(term.low_bytes for term in plan.memory.terms)
    fit = plan.fit
    speed = plan.compute.speed if plan.compute else None
    return Side(
        Compared("plan", name),
        {
            "request": {field.name: getattr(plan.request, field.name) for field in fields(plan.request)},
            "lengths": {
                "context_per_request": plan.context_len,
                "num_sequences": plan.request.num_sequences,
                "native_context": plan.native_context,
                "supported_context": plan.supported_context,
            },
            "rope": {
                "decision": plan.rope.decision,
                "type": plan.rope.type,
                "factor": plan.rope.factor,
                "original_max_position_embeddings": plan.rope.original_max_position_embeddings,
            },
            "memory": {**memory, "total": _range(low, plan.memory.high_bytes)},
            "KV cache": {field.name: getattr(plan.memory.kv, field.name) for field in fields(plan.memory.kv)},
            "fit": {
                "fits": fit.fits,
                "usable_bytes": fit.usable_bytes,
                "largest_context_len": fit.largest_context_len,
                "max_sequences": fit.max_sequences,
            },
            "speed": {
                "prefill_seconds": speed.prefill_seconds if speed else None,
                "decode_tokens_per_second": speed.decode_tokens_per_second if speed else None,
            },
            "command": _flags(plan.launch.argv if plan.launch else ()),
            "findings": _codes(plan.findings),
        },
    )


def run_side(name: str, run: Measurement, trials: Iterable[Trial]) -> Side:
    """Settings, recall at every length, speed and measured memory, arm by arm."""
    asked = tuple(trials)
    recall: dict[str, Any] = {}
    memory: dict[str, Any] = {}
    speed: dict[str, Any] = {}
    for arm in run.arms:
        for score in by_length(trial for trial in asked if trial.arm == arm.arm):
            recall[f"{arm.arm} at {score.length:,} tokens"] = f"{score.hits} of {score.trials}"
        for term in arm.memory:
            memory[f"{arm.arm} {term.name}"] = term.measured_bytes or term.printed_bytes
        for point in arm.speed:
            speed[f"{arm.arm} prefill at {point.length:,} tokens, s"] = round(point.prefill_seconds, 3)
    settings = {
        key: value for key, value in run.settings.items() if _is_plain(value) or key in ("arms", "plan")
    }
    return Side(
        Compared("run", name),
        {
            "run": {
                "status": run.status,
                "checkpoint": run.checkpoint,
                "weights": run.checkpoint_fingerprint,
                "target_len": run.target_len,
                "machine": run.machine.cpu,
            },
            "settings": settings,
            "recall": recall,
            "memory measured": memory,
            "seconds": speed,
            "findings": _codes(run.findings),
        },
    )


def log_side(name: str, log: ForeignLog) -> Side:
    """What a server printed: lengths, and buffers by the terms that they are."""
    names = dict.fromkeys(buffer.name for buffer in log.buffers)
    printed = (term_of(log.buffers, one) for one in names)
    memory = {
        term.name: _range(term.bytes - term.rounding_bytes, term.bytes + term.rounding_bytes)
        for term in printed
        if term is not None
    }
    return Side(
        Compared("log", name),
        {
            "lengths": {"context_per_request": log.context_len, "num_sequences": log.num_sequences},
            "memory": memory,
            "command": _flags(log.command or ()),
        },
    )


def differences(a: Side, b: Side) -> Differences:
    """What differs between two sides, in the sections that both have."""
    found: list[Difference] = []
    same = 0
    for section in (name for name in a.sections if name in b.sections):
        mine, others = a.sections[section], b.sections[section]
        if a.compared.kind != b.compared.kind:  # what one kind does not tell is no difference
            shared = mine.keys() & others.keys()
            mine, others = _only(mine, shared), _only(others, shared)
        rows, equal = _section(section, mine, others)
        found += rows
        same += equal
    notes: tuple[Finding, ...] = ()
    if a.checkpoint is not None and b.checkpoint is not None:
        rows, equal, notes = _tensors(a.checkpoint, b.checkpoint)
        found += rows
        same += equal
    return Differences(a.compared, b.compared, tuple(found), same, notes)


def _only(values: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    kept = set(names)
    return {name: value for name, value in values.items() if name in kept and value is not None}


def _section(section: str, a: Mapping[str, Any], b: Mapping[str, Any]) -> tuple[list[Difference], int]:
    rows: list[Difference] = []
    same = 0
    for name in dict.fromkeys((*a, *b)):
        mine, other = a.get(name), b.get(name)
        if _alike(mine, other):
            same += 1
        else:
            rows.append(Difference(section, name, mine, other))
    return rows[:_MOST], same


def _alike(a: Any, b: Any) -> bool:
    """Equal, or ranges that overlap: a figure is known no better than it is printed."""
    if _is_range(a) and _is_range(b):
        return bool(a["low"] <= b["high"] and b["low"] <= a["high"])
    return bool(a == b)


def _range(low: int, high: int) -> Any:
    return {"low": low, "high": high}


def _is_range(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"low", "high"}


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool | None)


def _codes(findings: Iterable[Finding]) -> dict[str, Any]:
    return {finding.code: finding.severity for finding in findings}


def _flags(words: Iterable[str]) -> dict[str, Any]:
    """Flags with their values; a flag alone is True, a word before any flag its own name."""
    flags: dict[str, Any] = {}
    name = ""
    for word in words:
        if word.startswith("-") and not _is_number(word):
            name, _, value = word.partition("=")
            flags[name] = value or True
        elif name:
            flags[name] = word if flags[name] is True else f"{flags[name]} {word}"
    return flags


def _is_number(word: str) -> bool:
    return word[1:].replace(".", "", 1).isdigit()


def _tensors(a: Checkpoint, b: Checkpoint) -> tuple[list[Difference], int, tuple[Finding, ...]]:
    """Types and shapes of tensors by name; files of two formats name theirs differently."""
    if (a.format == "gguf") != (b.format == "gguf"):
        note = Finding(
            "tensors_not_compared",
            "info",
            f"{a.format} and {b.format} name their tensors differently: facts and sizes are compared",
            {"a": a.format, "b": b.format},
        )
        return [], 0, (note,)
    mine, others = _stored(a), _stored(b)
    grouped: dict[tuple[str, Any, Any], int] = {}
    same = 0
    for name in dict.fromkeys((*mine, *others)):
        pair = mine.get(name), others.get(name)
        if pair[0] == pair[1]:
            same += 1
            continue
        key = (_BLOCK.sub("*", name, count=1), *pair)
        grouped[key] = grouped.get(key, 0) + 1
    rows = [Difference("tensors", name, one, other, count) for (name, one, other), count in grouped.items()]
    note = Finding(
        "values_not_compared",
        "info",
        "weights are not read: tensors that are equal in name, type and shape may differ in their values",
        {"same": same},
    )
    return rows[:_MOST], same, (note,) if same else ()


def _stored(checkpoint: Checkpoint) -> dict[str, str]:
    table = checkpoint.tensors
    return {
        name: f"{dtype} {'x'.join(map(str, shape))}"
        for name, dtype, shape in zip(table.names, table.dtypes, table.shapes, strict=True)
    }
