"""Installs an engine in a place of its own: each engine's module ``install`` says how."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Protocol, cast

from ropewalk.engines import engine_of, served_engines
from ropewalk.errors import EngineError, UsageError

MARKER = ".complete"
Say = Callable[[str], None]


class Installer(Protocol):
    """The functions of an engine's module ``install``."""

    @property
    def NAMES(self) -> tuple[str, ...]:
        """What ``ropewalk engine add`` calls it, and other names that it is known by."""
        ...

    def install(self, *, say: Say) -> Path:
        """The interpreter that runs it, installed where it is not there yet."""
        ...


def installer_of(engine: str) -> Installer:
    """The functions that install a served engine."""
    return cast("Installer", import_module(f"{engine_of(engine).room}.install"))


def installable() -> tuple[str, ...]:
    """The names that ``ropewalk engine add`` takes."""
    return tuple(installer_of(name).NAMES[0] for name in served_engines())


def engines_dir() -> Path:
    """Where installed engines live: ``ROPEWALK_ENGINES``, else the user's data folder."""
    chosen = os.environ.get("ROPEWALK_ENGINES")
    if chosen:
        return Path(chosen)
    from platformdirs import user_data_path

    return user_data_path("ropewalk") / "engines"


def install_engine(name: str, *, say: Say = lambda line: None) -> Path:
    """Install an engine and return the interpreter that runs it.

    llama.cpp's wheel goes into ropewalk's own environment, the others into environments under
    :func:`engines_dir`. A half-made environment is made anew; a complete one is left alone. Raises
    :class:`UsageError` for an unknown name, :class:`EngineError` with pip's last words when it fails.
    """
    for installer in map(installer_of, served_engines()):
        if name in installer.NAMES:
            with _alone(say):
                return installer.install(say=say)
    raise UsageError(
        f"{name!r} is no engine that can be installed; there are {', '.join(installable())}",
        where={"engine": name},
    )


@contextmanager
def _alone(say: Say) -> Iterator[None]:
    """One installation at a time in the folder of engines: a second would remove what the first is making."""
    folder = engines_dir()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise EngineError(
            f"{folder} cannot be written: {error.strerror}",
            code="engine_install_failed", where={"file": str(folder)},
        ) from error  # fmt: skip
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("waiting for another installation in the same folder")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def make_environment(home: Path, *, say: Say) -> Path:
    """A virtual environment in this folder, made anew; its interpreter."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    say(f"making an environment in {home}")
    _run([sys.executable, "-m", "venv", str(home)], say=say)
    return home / "bin" / "python"


def pip(python: Path, arguments: list[str], *, say: Say, env: Mapping[str, str] | None = None) -> None:
    """Run an interpreter's pip, or uv where it has none, as in an environment that uv made.

    Raises :class:`EngineError` with the last words when it fails.
    """
    uv = shutil.which("uv")
    if uv is not None and not _has_pip(python):
        words, *others = arguments
        command = [uv, "pip", words, "--quiet", "--python", str(python), *others]
    else:
        command = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments]
    _run(command, say=say, env=env)


def _has_pip(python: Path) -> bool:
    words = [str(python), "-c", "import pip"]
    return subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0


def _run(argv: list[str], *, say: Say, env: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, env=env)
    if done.returncode == 0:
        return
    words = [line for line in done.stderr.splitlines() if line.strip()]
    errors = [line for line in words if line.startswith("ERROR")] or words[-3:]
    say(done.stderr)
    raise EngineError(
        f"installing failed: {' '.join(errors) or 'no message'}",
        code="engine_install_failed",
        where={"command": argv, "status": done.returncode},
    )
