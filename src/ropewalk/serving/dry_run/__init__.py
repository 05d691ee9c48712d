"""Has the engine work out its own memory without reading weights, and holds a plan against it.

llama.cpp makes its model and its context without allocating (``no_alloc``, which its own ``--fit`` uses) and
prints every size; vLLM runs its configuration checks and its cache planning on a model without storage.
Both run in a process of their own, a moment for llama.cpp, some ten seconds of imports for vLLM.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ropewalk.errors import EngineError
from ropewalk.findings import Finding, by_severity
from ropewalk.planner.records import Plan
from ropewalk.serving.dry_run.answer import EngineAnswer
from ropewalk.serving.dry_run.confirm import confirmed
from ropewalk.serving.engines import launch_spec, on_gpu
from ropewalk.serving.engines.llama_cpp.dry_run import ask_llama
from ropewalk.serving.engines.vllm.dry_run import ask_vllm
from ropewalk.serving.records import EngineBuild

__all__ = ["EngineAnswer", "confirm_plan"]


def confirm_plan(plan: Plan, *, build: EngineBuild | None) -> Plan:
    """The plan with the engine's own figures, and ``launch.confirmed_by`` set to ``engine``.

    A term that the engine confirms gets the basis ``oracle``; where it says something else its figure is
    taken, with a finding ``oracle_differs``. An engine that refuses is a finding ``engine_refuses``. Where it
    cannot be asked, ``oracle_unavailable`` says why, and the plan stays as it is.
    """
    if plan.launch is None:
        return plan  # refused, or for an engine that nobody serves with
    reason = _why_not(plan, build)
    if reason is not None or build is None:
        return _unavailable(plan, reason or "")
    ask = ask_llama if build.engine == "llama-server" else ask_vllm
    try:
        answer = ask(launch_spec(plan, build=build), plan)
    except EngineError as error:
        return _unavailable(plan, error.message)
    return confirmed(plan, answer)


def _why_not(plan: Plan, build: EngineBuild | None) -> str | None:
    if build is None:
        return f"no {plan.request.engine} is installed here"
    if build.version != plan.request.engine_version:
        return f"the plan is for version {plan.request.engine_version}, {build.version} is installed"
    if len(plan.memory.per_device) > 1:
        return "it is asked for one device only"
    if build.engine == "vllm":
        return "the vLLM that is installed serves on the CPU" if _for_gpu_but_cpu(plan, build) else None
    if build.name != "embedded":
        return f"{build.engine} has no option for it; the embedded engine has"
    if not Path(plan.checkpoint).is_file():
        return f"{plan.checkpoint} is not a file on this machine"
    return "the embedded engine serves on the CPU" if on_gpu(plan) else None


def _for_gpu_but_cpu(plan: Plan, build: EngineBuild) -> bool:
    return on_gpu(plan) and build.devices == ("cpu",)


def _unavailable(plan: Plan, reason: str) -> Plan:
    finding = Finding(
        "oracle_unavailable",
        "info",
        f"{plan.request.engine} was not asked to confirm the plan: {reason}",
        {"engine": plan.request.engine},
    )
    return replace(plan, findings=by_severity((*plan.findings, finding)))
