"""vLLM's own figures: its configuration checks and its cache planning, on a model without storage."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ropewalk.engines import EngineBuild
from ropewalk.errors import EngineError
from ropewalk.planner.records import Launch, Plan
from ropewalk.serving.engines import on_gpu
from ropewalk.serving.engines.find import interpreter_of
from ropewalk.serving.engines.vllm.dry_run_child import MARK
from ropewalk.serving.engines.vllm.launch import SCRUBBED_ENVIRONMENT
from ropewalk.serving.engines.vllm.log import first_reason
from ropewalk.serving.server_report import EngineAnswer, PrintedTerm

_CHILD = Path(__file__).with_name("dry_run_child.py")
_SECONDS = 600.0  # ten seconds of imports on an idle machine, minutes on a cold disk
_TAIL_LINES = 5


def why_not(plan: Plan, build: EngineBuild) -> str | None:
    """A plan for GPUs cannot be put to a vLLM for the processor."""
    return "the vLLM that is installed serves on the CPU" if _for_gpu_but_cpu(plan, build) else None


def _for_gpu_but_cpu(plan: Plan, build: EngineBuild) -> bool:
    return on_gpu(plan) and build.devices == ("cpu",)


def ask(launch: Launch, plan: Plan) -> EngineAnswer:
    """Weights, the pool of blocks, what it holds, and the engine's refusal if it would not start.

    Raises :class:`EngineError` where it does not answer: its planning functions are not for others to call,
    and move between releases (checked with 0.32.0).
    """
    asked = {"argv": launch.argv[1:], "available": plan.memory.kv.reserved_bytes}
    answer = next(ask_many(launch.found_build, [asked], env=launch.env), None)
    if answer is None:
        raise EngineError("vLLM's child gave no answer")
    return read_answer(answer, launch.found_build)


def ask_many(
    build: EngineBuild, questions: Sequence[dict[str, Any]], *, env: dict[str, str]
) -> Iterator[dict[str, Any]]:
    """The child's answers to several questions, for the price of one start."""
    kept = {name: text for name, text in os.environ.items() if not SCRUBBED_ENVIRONMENT.match(name)}
    try:
        done = subprocess.run(
            [interpreter_of(build.path), "-I", str(_CHILD)],
            input="".join(json.dumps(question) + "\n" for question in questions),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            env={**kept, **env},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineError(f"vLLM's interpreter did not answer: {error}") from error
    answers = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if not answers:
        tail = "\n".join(done.stderr.splitlines()[-_TAIL_LINES:])
        raise EngineError(f"vLLM's interpreter did not answer; it ended:\n{tail}")
    for line in answers:
        yield json.loads(line.removeprefix(MARK))


def read_answer(answer: dict[str, Any], build: EngineBuild) -> EngineAnswer:
    """The child's answer as a record. Raises :class:`EngineError` where it could not ask."""
    source = f"{build.build or build.name}, planned without storage"
    if "unable" in answer:
        raise EngineError(f"this vLLM cannot be asked: {answer['unable']}")
    if "refusal" in answer:
        return EngineAnswer(source, refusal=first_reason(answer["refusal"]))
    return EngineAnswer(
        source,
        terms=(PrintedTerm("weights", answer["weights_bytes"], 0),),
        cache_bytes=answer["cache_bytes"],
        counts=tuple((name, answer[name]) for name in ("block_size", "num_blocks", "max_concurrency")),
    )
