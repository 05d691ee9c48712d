"""llama.cpp's own figures: the embedded engine makes the context without allocating it, and prints sizes."""

from __future__ import annotations

import subprocess
from pathlib import Path

from ropewalk.engines import EngineBuild
from ropewalk.errors import EngineError
from ropewalk.planner.records import Launch, Plan
from ropewalk.serving.engines import on_gpu
from ropewalk.serving.engines.llama_cpp import log as llama_log
from ropewalk.serving.engines.llama_cpp.launch import without_override
from ropewalk.serving.server_report import EngineAnswer, term_of

NO_PROJECTOR = "/dev/null/ropewalk-asks-for-no-projector"
_SECONDS = 120.0  # 0.3 s for 135M parameters; a vocabulary of 262,144 takes longest
_TERMS = ("kv_cache", "state", "output_buffer", "compute_buffer")


def why_not(plan: Plan, build: EngineBuild) -> str | None:
    """Only the embedded engine can be asked, about a file and the processor."""
    if build.name != "embedded":
        return f"{build.engine} has no option for it; the embedded engine has"
    if not Path(plan.checkpoint).is_file():
        return f"{plan.checkpoint} is not a file on this machine"
    return "the embedded engine serves on the CPU" if on_gpu(plan) else None


def ask(launch: Launch, plan: Plan) -> EngineAnswer:
    """Caches, output and compute buffer to 0.01 MiB; the weights are not read, so nothing is said of them.

    Where an indexer keeps a cache beside the model's, the lines do not tell which is which: neither is taken.
    The embedded engine only: it is the one that has ``no_alloc`` among its parameters (xllamacpp
    2026.10.11549). Raises :class:`EngineError` where it does not answer.
    """
    lines = _run(launch)
    printed = llama_log.parse_unallocated(lines)
    source = f"{launch.found_build.build or launch.found_build.name}, asked without allocating"
    if not any(buffer.name == "compute_buffer" for buffer in printed):
        reason = llama_log.root_error(lines)
        if reason is None:
            raise EngineError("the embedded engine gave neither sizes nor a reason")
        return EngineAnswer(source, refusal=reason)
    names = [name for name in _TERMS if not (name == "kv_cache" and plan.memory.term("indexer_cache"))]
    found = (term_of(printed, name) for name in names)
    return EngineAnswer(source, terms=tuple(term for term in found if term))


def _run(launch: Launch) -> list[str]:
    argv = [
        launch.found_build.path,
        "-P",
        "-m",
        "ropewalk.serving.engines.llama_cpp.dry_run_child",
        *without_override(launch.argv),
    ]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"the embedded engine did not answer: {error}") from error
    return [line for line in done.stdout.splitlines() if NO_PROJECTOR not in line]
