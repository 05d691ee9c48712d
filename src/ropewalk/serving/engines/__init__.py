"""Engines: found, chosen, and told what a plan says. What only one engine does is in its own module."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import cast

from ropewalk.engines import EngineName, engine_of
from ropewalk.errors import EngineMissingError, UsageError
from ropewalk.findings import by_severity
from ropewalk.inspector.checkpoint import engine_file
from ropewalk.planner.records import Launch, Plan
from ropewalk.serving.engines.adapter import Adapter
from ropewalk.serving.engines.explained import explained
from ropewalk.serving.engines.find import find_engines, pick_engine, with_devices
from ropewalk.serving.records import SINGLE_NODE, EngineBuild, LaunchSpec, Topology

__all__ = [
    "Adapter",
    "adapter_of",
    "command_of",
    "find_engines",
    "launch_record",
    "launch_spec",
    "on_gpu",
    "pick_engine",
    "with_devices",
]


def adapter_of(engine: str) -> Adapter:
    """What only this engine does: its arguments, its client, its log."""
    return cast("Adapter", import_module(f"{engine_of(engine).room}.launch"))


def launch_spec(
    plan: Plan,
    *,
    build: EngineBuild,
    model: str | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    threads: int | None = None,
    spread: Topology = SINGLE_NODE,
) -> LaunchSpec:
    """Everything needed to start the planned server; ``model`` is the planned checkpoint by default.

    Where the plan is for several machines, ``spread`` says which; their addresses are placeholders without.
    Raises :class:`UsageError` where the plan refuses, the engine is not the one planned for, or cannot be
    spread so.
    """
    if plan.rope.decision == "refuse":
        raise UsageError(plan.rope.reason, code="plan_refused", where={"context_len": plan.context_len})
    if plan.request.engine != build.engine:
        raise UsageError(
            f"the plan is for {plan.request.engine}, the engine is {build.engine}",
            where={"planned": plan.request.engine, "engine": build.engine},
        )
    adapter = adapter_of(build.engine)
    spec = adapter.launch_spec(
        plan,
        build=build,
        model=engine_file(model or plan.checkpoint),
        host=host,
        port=adapter.DEFAULT_PORT if port is None else port,
        threads=threads,
    )
    return adapter.distribute(spec, spread, num_nodes=plan.request.nodes)


def command_of(spec: LaunchSpec) -> str:
    """The command line for a person's shell, quoted."""
    return adapter_of(spec.build.engine).command_of(spec)


def launch_record(plan: Plan, *, build: EngineBuild | None = None, spread: Topology = SINGLE_NODE) -> Plan:
    """The plan with its ``launch``: the command for ``build``, else for the engine found here, else for one
    that is not.

    A plan for GPUs is not for an engine that serves on the processor. A plan that is refused, or is for an
    engine that nobody serves with, gets no command.
    """
    engine = plan.request.engine
    if plan.rope.decision == "refuse" or not engine_of(engine).is_served:
        return plan
    build = build or _found(engine)
    if build is None or (build.devices == ("cpu",) and on_gpu(plan)):
        build = EngineBuild(name=engine, engine=engine, version=None, path=engine)
    spec = launch_spec(plan, build=build, spread=spread)
    more = (one for one in adapter_of(build.engine).launch_findings(plan) if one not in plan.findings)
    return replace(
        plan,
        launch=Launch(
            engine=spec.build.engine,
            engine_version=plan.request.engine_version or spec.build.version,
            argv=spec.argv,
            env=spec.env,
            command=command_of(spec),
            confirmed_by="rules",
            nodes=spec.nodes,
            explained=explained(plan.request, spec.argv, adapter_of(build.engine).OPTION_REASONS),
        ),
        findings=by_severity((*plan.findings, *more)),
    )


def on_gpu(plan: Plan) -> bool:
    """Whether any device of the plan is a GPU."""
    return any(share.device.startswith("gpu") for share in plan.memory.per_device)


def _found(engine: EngineName) -> EngineBuild | None:
    try:
        return pick_engine(engine)
    except EngineMissingError:
        return None
