"""Command lines as people paste them, down to the engine and its arguments."""

from __future__ import annotations

import pytest

from ropewalk.checking.argv import read_command
from ropewalk.errors import UsageError


def test_words_and_one_quoted_string_are_the_same_command() -> None:
    words = ["vllm", "serve", "Qwen/Qwen3-8B", "--max-model-len", "131072"]
    assert read_command(words) == read_command([" ".join(words)])
    assert read_command(words).arguments == ("Qwen/Qwen3-8B", "--max-model-len", "131072")


def test_json_in_quotes_is_one_word_and_continued_lines_are_one_line() -> None:
    command = read_command(["llama-server -m x.gguf \\\n  --chat-template-kwargs '{\"a\": 1}'"])
    assert command.arguments == ("-m", "x.gguf", "--chat-template-kwargs", '{"a": 1}')


def test_assignments_and_wrappers_in_front() -> None:
    command = read_command(
        ["env", "CUDA_VISIBLE_DEVICES=0,1", "nohup", "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1", "vllm", "serve", "m"]
    )
    assert command.env == {"CUDA_VISIBLE_DEVICES": "0,1", "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}
    assert (command.engine, command.prefix) == ("vllm", ("nohup", "vllm", "serve"))


@pytest.mark.parametrize(
    ("text", "engine", "prefix", "arguments"),
    [
        ("./build/bin/llama-server -m a", "llama-server", ("./build/bin/llama-server",), ("-m", "a")),
        (
            "python3.11 -u -m vllm.entrypoints.openai.api_server --model X",
            "vllm",
            ("python3.11", "-u", "-m", "vllm.entrypoints.openai.api_server"),
            ("--model", "X"),
        ),
        (
            "python -m vllm.entrypoints.cli.main serve X",
            "vllm",
            ("python", "-m", "vllm.entrypoints.cli.main", "serve"),
            ("X",),
        ),
    ],
)
def test_the_program_is_found(
    text: str, engine: str, prefix: tuple[str, ...], arguments: tuple[str, ...]
) -> None:
    command = read_command([text])
    assert (command.engine, command.prefix, command.arguments) == (engine, prefix, arguments)


def test_a_simple_container_is_taken_apart() -> None:
    command = read_command(
        [
            "docker run --rm --gpus=all -v /models:/models -e VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 --ipc host "
            "-p 8000:8000 vllm/vllm-openai:v0.29.0 --model /models/a --max-model-len 4096"
        ]
    )
    assert (command.engine, command.engine_version) == ("vllm", "0.29.0")
    assert command.arguments == ("--model", "/models/a", "--max-model-len", "4096")
    assert (command.env, command.engine_env) == ({}, {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"})


def test_the_llama_images() -> None:
    server = read_command(
        ["podman run -p 8080:8080 ghcr.io/ggml-org/llama.cpp:server-cuda-b11434 -m /m.gguf"]
    )
    assert (server.engine, server.engine_version) == ("llama-server", "b11434")
    full = read_command(["docker run ghcr.io/ggml-org/llama.cpp:full --server -m /m.gguf"])
    assert full.arguments == ("-m", "/m.gguf")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("llama-cli -m x.gguf", "llama-cli"),
        ("vllm bench serve", "vllm bench"),
        ("python serve.py", "python serve.py"),
        ("python -m llama_cpp.server --model x", "llama_cpp.server"),
        ("docker run --frobnicate x vllm/vllm-openai --model y", "--frobnicate"),
        ("docker run python:3.11 vllm serve x", "python:3.11"),
        ("docker run ghcr.io/ggml-org/llama.cpp:full --run -m x", "--server"),
        ("vllm serve x && echo done", "&&"),
        ("vllm serve 'x", "quot"),
        ("CUDA_VISIBLE_DEVICES=0", "no command"),
    ],
)
def test_what_is_not_judged_says_so(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_command([text])
    assert told in str(caught.value)
