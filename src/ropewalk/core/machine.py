"""This machine: the engines and devices that it has, and engines installed on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ropewalk.doctor import Doctor
    from ropewalk.engines import EngineName
    from ropewalk.planner.records import PlanRequest
    from ropewalk.serving.host.devices import Device
    from ropewalk.serving.host.probe import Host


def probe_host(engine: EngineName, *, path: str | None = None) -> Host:
    """The engine that would serve on this machine, at ``path`` if given, and the devices that it can use.

    Asking an engine may start a process. Raises :class:`EngineMissingError` where ``path`` is no engine.
    """
    from ropewalk.serving.host.probe import probe_host as probe

    return probe(engine, path=path)


def devices() -> tuple[Device, ...]:
    """The devices of this machine, GPUs first, with their memory."""
    from ropewalk.serving.host.devices import find_devices

    return find_devices()


def default_device(request: PlanRequest, host: Host) -> Device | None:
    """The device of this machine that ``auto`` stands for: the first GPU that the engine can use, else the
    processor where the engine serves on it; None where a GPU elsewhere is planned for."""
    from ropewalk.serving.host.probe import host_device

    return host_device(request, host)


def doctor() -> Doctor:
    """What this machine can serve: engines with their versions, how to get the others, devices, memory."""
    from ropewalk.doctor import examine

    return examine()


def require_engine(engine: EngineName) -> None:
    """Raise :class:`EngineMissingError` where none of this kind is found."""
    from ropewalk.serving.engines import pick_engine

    pick_engine(engine)


def installable_engines() -> tuple[str, ...]:
    """The names that :func:`install_engine` takes."""
    from ropewalk.serving.install import installable

    return installable()


def install_engine(name: str, *, say: Callable[[str], None]) -> Path:
    """Install an engine and return the interpreter that runs it.

    Raises :class:`UsageError` for an unknown name, :class:`EngineError` with pip's last words.
    """
    from ropewalk.serving.install import install_engine as install

    return install(name, say=say)


def demo_model(*, say: Callable[[str], None]) -> Path:
    """The demonstration's model: installed beside us, or fetched once into the user's folder of data.

    Raises :class:`CheckpointMissingError` where it cannot be had.
    """
    from ropewalk.serving.demo_model import demo_model as model

    return model(say=say)


def idle_threads() -> int | None:
    """As many threads as cores are idle; None, the engine's own choice, where all are."""
    from ropewalk.serving.host.devices import idle_cores, this_machine

    cores = this_machine().cores
    idle = idle_cores(cores)
    return idle if idle < cores else None
