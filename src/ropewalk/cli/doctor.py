"""``ropewalk doctor``: what this machine can serve."""

from __future__ import annotations

import platform
from importlib import metadata

import click

from ropewalk._version import __version__
from ropewalk.cli import output
from ropewalk.cli.command import Command, json_option
from ropewalk.errors import EngineMissingError
from ropewalk.planner.records import Engine
from ropewalk.serving.devices import find_devices
from ropewalk.serving.engines import find_engines, pick_engine
from ropewalk.serving.store import default_store_path

_SERVED: tuple[Engine, ...] = ("llama-server", "vllm")
_LIBRARIES = ("huggingface_hub", "httpx2", "pydantic", "rich")


@click.command(
    "doctor",
    cls=Command,
    examples="""
        ropewalk doctor
        ropewalk doctor --json | jq '.devices[0].free_bytes'
    """,
)
@json_option
def command(as_json: bool) -> int:
    """Say which engines are found, with their versions, how to get the others, and what memory there is.

    Exit status 4 where there is no engine at all.
    """
    engines, missing, devices = find_engines(), _missing(), find_devices()
    versions = {"ropewalk": __version__, "python": platform.python_version()}
    versions |= {name: metadata.version(name) for name in _LIBRARIES}
    if as_json:
        output.document({
            "schema": "ropewalk.doctor/1", "engines": engines, "missing": missing, "devices": devices,
            "store": default_store_path(), "versions": versions,
        })  # fmt: skip
    else:
        from ropewalk.report.doctor import doctor_page

        output.page(
            doctor_page(
                engines=engines,
                missing=missing,
                devices=devices,
                store=default_store_path(),
                versions=[f"{name} {version}" for name, version in versions.items()],
            )
        )
    return 0 if engines else EngineMissingError.exit_status


def _missing() -> dict[str, str]:
    """Each engine of which there is none, and how to get one."""
    missing: dict[str, str] = {}
    for engine in _SERVED:
        try:
            pick_engine(engine)
        except EngineMissingError as error:
            missing[engine] = error.message
    return missing
