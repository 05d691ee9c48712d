"""What ``check`` says about a command line that somebody already has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ropewalk.findings import Finding
from ropewalk.pages import Paged
from ropewalk.planner.records import Memory

Unjudged = Literal["model", "memory"]


@dataclass(frozen=True, slots=True)
class Resolved:
    """What the engine makes of the command; None where the checkpoint would be needed and is not at hand.

    ``context_per_request`` is the longest request (prompt and answer) that is served; ``num_sequences``
    how many are served at once. ``kv_cells`` are the tokens that the attention cache has room for, all
    sequences together; ``kv_bytes`` what is reserved for it (for vLLM without a fixed size: what one
    request of full length takes). ``trained_context`` is the checkpoint's own limit, ``derived_max_len``
    the one that the engine derives from it and from the flags. ``rope`` is the scaling in effect
    (``type``, ``factor``, ``original_max_position_embeddings``, ``rope_theta``), None without any.
    ``host_cache_bytes`` is the ceiling of what is cached in host memory beside the plan.
    """

    context_per_request: int | None = None
    num_sequences: int | None = None
    kv_cells: int | None = None
    kv_bytes: int | None = None
    trained_context: int | None = None
    supported_context: int | None = None
    derived_max_len: int | None = None
    rope: dict[str, Any] | None = None
    host_cache_bytes: int | None = None
    memory: Memory | None = None


@dataclass(frozen=True, slots=True)
class Corrected:
    """The command with its errors repaired: ``argv`` without a shell, ``command`` for one."""

    argv: tuple[str, ...]
    env: dict[str, str]
    command: str
    changed: bool


@dataclass(frozen=True, slots=True)
class CheckResult(Paged):
    """The verdict on a command line.

    ``parsed`` maps each flag that was given, under its longest spelling, to the value that the engine
    reads. ``rules_version`` is the engine version whose rules were applied, ``engine_version`` the one
    asked for. Every finding names its remedy in ``where["fix"]``. ``ok`` is False where an error was found,
    True where none was and the model and the memory of the device were judged; else it is None, and
    ``not_judged`` names what is open.
    ``corrected`` is None where an error cannot be repaired without more knowledge than is at hand.
    """

    engine: str
    engine_version: str | None
    rules_version: str
    model: str | None
    parsed: dict[str, Any]
    resolved: Resolved
    corrected: Corrected | None
    findings: tuple[Finding, ...]
    ok: bool | None
    not_judged: tuple[Unjudged, ...] = ()
    schema: str = "ropewalk.check/1"
