"""Finds llama-server: a program of that name, or the server in a wheel beside ropewalk (``embedded``)."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import metadata, util

from ropewalk.engines import EngineBuild
from ropewalk.serving.engines.find import Ask, device_names, run
from ropewalk.serving.engines.llama_cpp.embedded_flags import BY_NAME

HELP = ("--help",)
_BY_LAUNCHER = frozenset({"--override-kv"})  # what the launcher does for the embedded engine
_ASK_EMBEDDED = """
import xllamacpp
for device in xllamacpp.get_device_info():
    if device["name"] != "CPU":
        print(f"  {device['name']}: {device['description']}")
"""


def installed(ask: Ask) -> Iterator[EngineBuild | None]:
    """What is on the search path, then the embedded engine."""
    if found := shutil.which("llama-server"):
        yield ask(found)
    yield _embedded()


def ask(program: str) -> EngineBuild | None:
    """``version: 6123 (abcdef12)`` and what it was built with; newer builds say a release number too."""
    answer = run([program, "--version"]) or ""
    version = re.search(r"^version: (.+)$", answer, re.MULTILINE)
    if version is None:
        return None
    built = re.search(r"^built (.+)$", answer, re.MULTILINE)
    return EngineBuild(
        name="llama-server",
        engine="llama-server",
        version=version[1].strip(),
        path=program,
        build=built[0].strip() if built else None,
    )


def _embedded() -> EngineBuild | None:
    if util.find_spec("xllamacpp") is None:
        return None
    version = metadata.version("xllamacpp")
    return EngineBuild(
        name="embedded",
        engine="llama-server",
        version=version,
        path=sys.executable,
        build=f"xllamacpp {version}",
    )


def with_devices(build: EngineBuild) -> EngineBuild:
    """The build with its devices, for which the engine is loaded elsewhere for a moment."""
    if build.name == "embedded":
        said = run([build.path, "-P", "-c", _ASK_EMBEDDED]) or ""
    else:
        said = run([build.path, "--list-devices"]) or ""
    return replace(build, devices=device_names(said))


def uses_gpus(build: EngineBuild) -> bool:
    """Whether it names any device beside the processor."""
    return bool(with_devices(build).devices)


def own_flags(build: EngineBuild) -> frozenset[str] | None:
    """What the embedded engine takes; a program is asked for its help."""
    return frozenset(BY_NAME) | _BY_LAUNCHER if build.name == "embedded" else None
