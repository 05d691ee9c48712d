"""What this machine can serve: engines, how to get those that are missing, devices and memory."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from ropewalk._version import __version__
from ropewalk.engines import EngineBuild, planned_engines, served_engines
from ropewalk.errors import EngineMissingError
from ropewalk.measuring.store import default_store_path
from ropewalk.serving.engines import find_engines, pick_engine
from ropewalk.serving.host.devices import Device, find_devices
from ropewalk.serving.service import default_log_path

_LIBRARIES = ("huggingface_hub", "httpx2", "pydantic", "rich")


@dataclass(frozen=True, slots=True)
class Doctor:
    """``missing`` has each engine of which there is none, and how to get one; ``planned_only`` those that are
    planned for and not served; ``store`` is the file of runs, ``logs`` the folder of servers' logs;
    ``versions`` are of ropewalk, Python and the libraries that results may depend on."""

    engines: tuple[EngineBuild, ...]
    missing: dict[str, str]
    planned_only: tuple[str, ...]
    devices: tuple[Device, ...]
    store: Path
    logs: Path
    versions: dict[str, str]
    schema: str = "ropewalk.doctor/1"


def examine() -> Doctor:
    """Look at everything; no engine is loaded into this process."""
    return Doctor(
        engines=find_engines(),
        missing=_missing(),
        planned_only=tuple(name for name in planned_engines() if name not in served_engines()),
        devices=find_devices(),
        store=default_store_path(),
        logs=default_log_path().parent,
        versions={
            "ropewalk": __version__,
            "python": platform.python_version(),
            **{name: metadata.version(name) for name in _LIBRARIES},
        },
    )


def _missing() -> dict[str, str]:
    missing: dict[str, str] = {}
    for engine in served_engines():
        try:
            pick_engine(engine)
        except EngineMissingError as error:
            missing[engine] = error.message
    return missing
