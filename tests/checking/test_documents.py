"""Command lines inside the files that people keep them in."""

from __future__ import annotations

from pathlib import Path

import pytest

from ropewalk import core
from ropewalk.checking.argv import read_command
from ropewalk.checking.documents import command_of, read_document
from ropewalk.errors import UsageError

COMPOSE = """
services:
  proxy:
    image: nginx:1
  llm:
    image: vllm/vllm-openai:v0.9.1-cu126
    command: --model Qwen/Qwen3-8B --max-model-len 32768
    environment:
      - VLLM_ALLOW_LONG_MAX_MODEL_LEN=1
      - HF_TOKEN
    deploy: {resources: {limits: {memory: 1g}}}
"""
SWAP = """
macros:
  server: /app/llama-server --port ${PORT}
models:
  qwen:
    env: ["LLAMA_ARG_N_CPU_MOE=20"]
    cmd: |
      # the large one
      ${server}
      -m /models/q.gguf
      -c 32768
"""
POD = """
spec:
  template:
    spec:
      containers:
        - name: server
          image: ghcr.io/ggml-org/llama.cpp:server-cuda-b11434
          args: ["-m", "/m.gguf", "-c", 4096]
          env: [{name: LLAMA_ARG_N_PARALLEL, value: "2"}]
"""


def test_a_compose_file() -> None:
    command = read_command([COMPOSE])
    assert (command.engine, command.engine_version) == ("vllm", "0.9.1")
    assert command.arguments == ("--model", "Qwen/Qwen3-8B", "--max-model-len", "32768")
    assert command.engine_env == {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}


def test_variables_of_a_compose_file_take_their_defaults() -> None:
    image = "ghcr.io/ggml-org/llama.cpp:server"
    text = f"services: {{a: {{image: '{image}', command: '-m x.gguf -c ${{CTX:-4096}}'}}}}"
    assert core.check([text]).parsed["--ctx-size"] == 4096


def test_a_configuration_of_llama_swap() -> None:
    command = read_command([SWAP])
    assert command.prefix == ("/app/llama-server",)
    assert command.arguments == ("--port", "5800", "-m", "/models/q.gguf", "-c", "32768")
    assert command.engine_env == {"LLAMA_ARG_N_CPU_MOE": "20"}


def test_a_manifest_of_kubernetes() -> None:
    command = read_command([POD])
    assert (command.engine_version, command.arguments) == ("b11434", ("-m", "/m.gguf", "-c", "4096"))
    assert command.engine_env == {"LLAMA_ARG_N_PARALLEL": "2"}


def test_one_of_several_is_named(tmp_path: Path) -> None:
    file = tmp_path / "swap.yaml"
    file.write_text(SWAP + "  small:\n    cmd: llama-server -m s.gguf\n")
    with pytest.raises(UsageError) as caught:
        read_document([str(file)])
    assert "qwen, small" in str(caught.value)
    assert read_document([str(file), "small"]) == ("llama-server -m s.gguf",)
    result = core.check([str(file), "small"])
    assert (result.engine, result.model) == ("llama-server", "s.gguf")


def test_a_script_and_a_unit_are_read_from_their_files(tmp_path: Path) -> None:
    script = tmp_path / "serve.sh"
    script.write_text("#!/bin/sh\nset -e\n# a note\nexec llama-server \\\n  -m x.gguf -c 4096 > log 2>&1 &\n")
    assert core.check([str(script)]).parsed["--ctx-size"] == 4096
    unit = tmp_path / "llm.service"
    unit.write_text(
        "[Service]\nEnvironment=LLAMA_ARG_CTX_SIZE=8192\nExecStart=/usr/bin/llama-server -m x.gguf\n"
    )
    assert core.check([str(unit)]).parsed["--ctx-size"] == 8192


@pytest.mark.parametrize(
    "text",
    [
        "services: [" * 5000,
        "models: {a: {cmd: '${a}${a}${a}${a}'}}\nmacros: {a: '" + "${a}" * 500 + "'}",
        "a: &a [x]\n"
        + "".join(f"b{i}: &b{i} [*a, *a]\n" for i in range(200))
        + "services: {x: {command: *b9}}",
        "models: {x: {cmd: 1}}",
        "services: 3",
        "spec: {containers: [1, {args: {a: b}}]}",
    ],
)
def test_hostile_documents_are_no_commands(text: str) -> None:
    with pytest.raises(UsageError):
        read_command([text])


def test_what_is_no_document_stays_as_it_is() -> None:
    assert command_of("vllm serve m --port 1") is None
    assert read_document(["vllm", "serve", "m"]) is None
