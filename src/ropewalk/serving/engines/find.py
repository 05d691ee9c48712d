"""Finds engines on this machine and asks each what it is. No engine is loaded into this process."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from ropewalk.engines import Engine, EngineBuild, EngineName, engine_of, served_engines
from ropewalk.errors import EngineMissingError
from ropewalk.limits import MAX_PRINTED_BYTES

_ASK_SECONDS = 60.0  # importing vLLM's metadata on a cold disk, not a measurement
Ask = Callable[[str], EngineBuild | None]


class Finder(Protocol):
    """The functions of an engine's module ``find``."""

    @property
    def HELP(self) -> tuple[str, ...]:
        """The arguments that make it list its flags."""
        ...

    def installed(self, ask: Ask) -> Iterator[EngineBuild | None]:
        """What is there without being named, in the order in which it would be picked."""
        ...

    def ask(self, program: str) -> EngineBuild | None:
        """What this program is; None where it is no such engine."""
        ...

    def with_devices(self, build: EngineBuild) -> EngineBuild:
        """The build with the devices that it can use beside the processor."""
        ...

    def uses_gpus(self, build: EngineBuild) -> bool:
        """Whether GPUs of this machine count for this build."""
        ...

    def own_flags(self, build: EngineBuild) -> frozenset[str] | None:
        """The flags that it takes, where that is known without asking it."""
        ...


def finder_of(engine: str) -> Finder:
    """The functions of a served engine that find it."""
    return cast("Finder", import_module(f"{engine_of(engine).room}.find"))


def find_engines() -> tuple[EngineBuild, ...]:
    """Every engine found, in the order in which they would be picked."""
    return tuple(build for name in served_engines() for build in _builds(engine_of(name)) if build)


def pick_engine(engine: EngineName, *, path: str | None = None) -> EngineBuild:
    """The engine to use: the one at ``path``, else the first that is found.

    The order is: the engine's environment variable (:attr:`ropewalk.engines.Engine.variable`), the search
    path, what is installed beside ropewalk or by ``ropewalk engine add``. Raises
    :class:`EngineMissingError`, which says how to get one.
    """
    known = engine_of(engine)
    if not known.is_served:
        raise EngineMissingError(known.how_to_get, where={"engine": engine})
    if path is not None:
        return _named(engine, path, "--engine-path")
    for build in _builds(known):
        if build:
            return build
    raise EngineMissingError(f"no {engine} is installed: {known.how_to_get}", where={"engine": engine})


def with_devices(build: EngineBuild) -> EngineBuild:
    """The build with the devices that it can use beside the CPU, as it names them itself."""
    return finder_of(build.engine).with_devices(build)


def device_names(said: str) -> tuple[str, ...]:
    """The devices in llama.cpp's list of them."""
    return tuple(re.findall(r"^  (\S.*?): ", said, re.MULTILINE))


def _builds(engine: Engine) -> Iterator[EngineBuild | None]:
    if engine.variable and (named := os.environ.get(engine.variable)):
        yield _named(engine.name, named, engine.variable)
    yield from finder_of(engine.name).installed(lambda program: _ask(engine.name, program))


def _named(engine: EngineName, path: str, origin: str) -> EngineBuild:
    """The engine that a person pointed at; being wrong about it is an error, not a reason to guess."""
    program = shutil.which(path)
    build = _ask(engine, program) if program else None
    if build is None:
        why = "does not answer as one" if program else "is no program"
        raise EngineMissingError(
            f"{origin} names {path} as {engine}, which {why}", where={"engine": engine, "path": path}
        )
    return build


def _ask(engine: EngineName, program: str) -> EngineBuild | None:
    return _ask_once(engine, program, Path(program).stat().st_mtime_ns)


@lru_cache(maxsize=16)
def _ask_once(engine: EngineName, program: str, changed: int) -> EngineBuild | None:
    """Each state of a program is asked once; ``changed`` tells one state from the next."""
    return finder_of(engine).ask(program)


def interpreter_of(program: str) -> str:
    """The interpreter in the first line of a console script; an interpreter is its own."""
    path = Path(program)
    if path.name.startswith("python"):
        return program
    with path.open("rb") as script:
        first = script.readline(512).decode(errors="replace").strip()
    return first.removeprefix("#!").strip() if first.startswith("#!") else program


def run(argv: list[str]) -> str | None:
    """What a program prints, its first MiB at most; None where it cannot be run or does not end in time.

    What it began is ended with it: it is found by name, and could be anything.
    """
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError:
        return None
    late = threading.Event()

    def end() -> None:
        late.set()
        _end(process)

    timer = threading.Timer(_ASK_SECONDS, end)
    timer.start()
    try:
        with process:
            printed = process.stdout.read(MAX_PRINTED_BYTES + 1) if process.stdout else b""
            if len(printed) > MAX_PRINTED_BYTES:
                _end(process)
    finally:
        timer.cancel()
    return None if late.is_set() else printed[:MAX_PRINTED_BYTES].decode(errors="replace")


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
