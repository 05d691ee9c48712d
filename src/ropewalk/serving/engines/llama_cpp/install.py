"""Installs llama.cpp's server in a wheel, beside ropewalk."""

from __future__ import annotations

import sys
from pathlib import Path

from ropewalk.serving.install import Say, pip

NAMES = ("llama-cpp", "embedded")  # what it is, and the name it has among the engines here


def install(*, say: Say) -> Path:
    """This interpreter, with the wheel beside it."""
    pip(Path(sys.executable), ["install", "xllamacpp>=2026.10"], say=say)
    return Path(sys.executable)
