"""Engines: found, chosen, and told what a plan says. What only one engine does is in its own module."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import cast

from ropewalk.engines import EngineBuild, EngineName, engine_of
from ropewalk.errors import EngineMissingError, UsageError
from ropewalk.findings import by_severity
from ropewalk.inspector.checkpoint import engine_file
from ropewalk.planner.records import Launch, Plan
from ropewalk.serving.engines.adapter import Adapter
from ropewalk.serving.engines.explained import explained
from ropewalk.serving.engines.find import find_engines, pick_engine, with_devices
from ropewalk.serving.records import SINGLE_NODE, Topology

__all__ = [
    "Adapter",
    "adapter_of",
    "find_engines",
    "launch_of",
    "on_gpu",
    "pick_engine",
    "with_devices",
    "with_launch",
]


def adapter_of(engine: str) -> Adapter:
    """What only this engine does: its arguments, its client, its log."""
    return cast("Adapter", import_module(f"{engine_of(engine).room}.launch"))


def launch_of(
    plan: Plan,
    *,
    build: EngineBuild,
    model: str | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    threads: int | None = None,
    spread: Topology = SINGLE_NODE,
) -> Launch:
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
    model = engine_file(model or plan.checkpoint)
    port = adapter.DEFAULT_PORT if port is None else port
    argv = adapter.arguments(plan, build=build, model=model, host=host, port=port, threads=threads)
    env = adapter.environment(plan, threads=threads)
    launch = Launch(
        engine=build.engine,
        engine_version=build.version,
        argv=argv,
        env=env,
        command=adapter.command_of(argv, env),
        confirmed_by="rules",
        model=model,
        host=host,
        port=port,
        context_len=plan.context_len,
        served_context_len=adapter.served_context_len(plan),
        override_context_len=plan.override_context_len,
        build=build,
    )
    return adapter.distribute(launch, spread, num_nodes=plan.request.nodes)


def with_launch(plan: Plan, *, build: EngineBuild | None = None, spread: Topology = SINGLE_NODE) -> Plan:
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
    adapter = adapter_of(build.engine)
    launch = launch_of(plan, build=build, spread=spread)
    more = (one for one in adapter.launch_findings(plan) if one not in plan.findings)
    return replace(
        plan,
        launch=replace(
            launch,
            engine_version=plan.request.engine_version or build.version,
            explained=explained(plan.request, launch.argv, adapter.OPTION_REASONS),
            build=None,
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
