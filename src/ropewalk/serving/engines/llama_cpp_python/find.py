"""Finds interpreters that have llama-cpp-python and what its server needs."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from importlib import util

from ropewalk.engines import EngineBuild
from ropewalk.serving.engines.find import Ask, device_names, run
from ropewalk.serving.engines.llama_cpp_python import install

HELP = ("--help",)
ASK_LIBRARY = """
import ctypes
import llama_cpp
from llama_cpp._ggml import libggml
libggml.ggml_backend_dev_count.restype = ctypes.c_size_t
libggml.ggml_backend_dev_get.restype = ctypes.c_void_p
libggml.ggml_backend_dev_name.restype = ctypes.c_char_p
for number in range(libggml.ggml_backend_dev_count()):
    device = ctypes.c_void_p(libggml.ggml_backend_dev_get(ctypes.c_size_t(number)))
    name = libggml.ggml_backend_dev_name(device).decode()
    if name != "CPU":
        print(f"  {name}: ")
"""
_ASK_VERSION = """
from importlib import metadata, util
if all(map(util.find_spec, ("llama_cpp", "fastapi", "uvicorn", "sse_starlette", "starlette_context"))):
    print(metadata.version("llama-cpp-python"))
"""


def installed(ask: Ask) -> Iterator[EngineBuild | None]:
    """What is beside ropewalk, then what ``ropewalk engine add`` made."""
    if util.find_spec("llama_cpp"):
        yield ask(sys.executable)
    if python := install.installed():
        yield ask(str(python))


def ask(program: str) -> EngineBuild | None:
    """The version by its metadata, where what its server needs is there too."""
    version = (run([program, "-I", "-c", _ASK_VERSION]) or "").strip()
    if not re.fullmatch(r"\d+\.\d+\.\S+", version):
        return None
    return EngineBuild(
        name="llama-cpp-python",
        engine="llama-cpp-python",
        version=version,
        path=program,
        build=f"llama-cpp-python {version}",
    )


def with_devices(build: EngineBuild) -> EngineBuild:
    """The build with its devices, for which the library is loaded elsewhere for a moment."""
    return replace(build, devices=device_names(run([build.path, "-I", "-c", ASK_LIBRARY]) or ""))


def uses_gpus(build: EngineBuild) -> bool:
    """Whether it names any device beside the processor."""
    return bool(with_devices(build).devices)


def own_flags(build: EngineBuild) -> frozenset[str] | None:
    """None: it is asked for its help."""
    return None
