"""Compiles llama-cpp-python and its server in an environment of its own."""

from __future__ import annotations

import os
from pathlib import Path

from ropewalk.serving.install import MARKER, Say, engines_dir, make_environment, pip

NAMES = ("llama-cpp-python",)
VERSION = "0.3.36"
_MAX_JOBS = 4  # a compiler takes up to a gigabyte each; unbounded a build took 12 GB and a load of 100


def installed() -> Path | None:
    """The interpreter of an installed environment, or None."""
    return (_home() / "bin" / "python") if (_home() / MARKER).is_file() else None


def install(*, say: Say) -> Path:
    """The interpreter of the environment, which is made where there is none."""
    return installed() or _make(_home(), say=say)


def _make(home: Path, *, say: Say = lambda line: None) -> Path:
    """Make an environment of llama-cpp-python and its server in a folder, anew, and return its interpreter.

    There are no wheels of it on PyPI: llama.cpp is compiled, by as many compilers as there are cores but
    four at the most. Raises :class:`EngineError` with pip's last words when it fails.
    """
    python = make_environment(home, say=say)
    requirement = f"llama-cpp-python[server]=={VERSION}"
    say(f"compiling {requirement} (13 minutes on two cores)")
    jobs = min(os.cpu_count() or 1, _MAX_JOBS)
    settings = {"CMAKE_BUILD_PARALLEL_LEVEL": str(jobs)} | dict(os.environ)
    pip(python, ["install", requirement], say=say, env=settings)
    (home / MARKER).touch()
    return python


def _home() -> Path:
    return engines_dir() / f"llama-cpp-python-{VERSION}"
