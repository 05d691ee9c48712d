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
        ("python -m llama_cpp.other --model x", "llama_cpp.other"),
        ("docker run --frobnicate x vllm/vllm-openai --model y", "--frobnicate"),
        ("docker run python:3.11 vllm serve x", "python:3.11"),
        ("docker run ghcr.io/ggml-org/llama.cpp:full --run -m x", "--server"),
        ("vllm serve x && vllm serve y", "2 servers"),
        ("vllm serve 'x", "quot"),
        ("CUDA_VISIBLE_DEVICES=0", "no command"),
    ],
)
def test_what_is_not_judged_says_so(text: str, told: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_command([text])
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("text", "engine", "arguments"),
    [
        ("numactl --cpunodebind=0 -m 0 llama-server -m x.gguf", "llama-server", ("-m", "x.gguf")),
        ("uv run --with vllm vllm serve m", "vllm", ("m",)),
        ("uvx --from vllm vllm serve m", "vllm", ("m",)),
        ("sudo -u llm taskset -c 0-7 nice -n 5 llama-server -c 1", "llama-server", ("-c", "1")),
        ("nohup vllm serve m > vllm.log 2>&1 &", "vllm", ("m",)),
        ("vllm serve m &> log", "vllm", ("m",)),
        ("cd /srv && source venv/bin/activate && vllm serve m | tee log", "vllm", ("m",)),
        ("bash -c 'exec vllm serve m --port 1'", "vllm", ("m", "--port", "1")),
        ("ExecStart=-/usr/bin/llama-server -m x.gguf", "llama-server", ("-m", "x.gguf")),
        ("[Service]\nExecStart=/usr/bin/llama-server \\\n  -m x.gguf", "llama-server", ("-m", "x.gguf")),
        ("llama-server -m x.gguf  # a note\n  -c 4096", "llama-server", ("-m", "x.gguf", "-c", "4096")),
        ("C:\\llama\\llama-server.exe -m C:\\models\\x.gguf", "llama-server", ("-m", "C:\\models\\x.gguf")),
        ('vllm serve m --hf-overrides={"a":{"b":1}}', "vllm", ("m", '--hf-overrides={"a":{"b":1}}')),
        ("timeout 1h vllm serve m", "vllm", ("m",)),
        ("tmux new-session -d -s llm 'llama-server -m x.gguf'", "llama-server", ("-m", "x.gguf")),
        ("screen -dmS llm llama-server -m x.gguf", "llama-server", ("-m", "x.gguf")),
        ("ssh -p 22 box 'llama-server -m x.gguf'", "llama-server", ("-m", "x.gguf")),
        ("distrobox enter rocm -- llama-server -m x.gguf", "llama-server", ("-m", "x.gguf")),
        ("docker exec -it llm llama-server -m x.gguf", "llama-server", ("-m", "x.gguf")),
        ("apptainer exec --nv l.sif llama-server -m x.gguf", "llama-server", ("-m", "x.gguf")),
        ('start "llm" /affinity FF /b llama-server.exe -m x.gguf', "llama-server", ("-m", "x.gguf")),
        ("me@box:~/llama$ ./llama-server -m x.gguf", "llama-server", ("-m", "x.gguf")),
        ("PS C:\\llm> .\\llama-server.exe -m x.gguf", "llama-server", ("-m", "x.gguf")),
        ("while true; do llama-server -m x.gguf; done", "llama-server", ("-m", "x.gguf")),
        ("llama serve -m x.gguf", "llama-server", ("-m", "x.gguf")),
        ("N=4096\nllama-server -c $N -b ${B:-512}", "llama-server", ("-c", "4096", "-b", "512")),
        ("llama-server -c $((32*1024)) -m '$N'", "llama-server", ("-c", "32768", "-m", "$N")),
        ("set N=9\r\nllama-server.exe -c %N%", "llama-server", ("-c", "9")),
        ("python3 -m llama_cpp.server --model x", "llama-cpp-python", ("--model", "x")),
    ],
)
def test_commands_as_people_have_them(text: str, engine: str, arguments: tuple[str, ...]) -> None:
    command = read_command([text])
    assert (command.engine, command.arguments) == (engine, arguments)


def test_variables_of_a_unit_and_of_export_count() -> None:
    unit = "[Service]\nEnvironment=LLAMA_ARG_CTX_SIZE=8192\nExecStart=/usr/bin/llama-server -m x.gguf"
    assert read_command([unit]).engine_env == {"LLAMA_ARG_CTX_SIZE": "8192"}
    exported = "export LLAMA_ARG_CTX_SIZE=4096; llama-server -m x.gguf"
    assert read_command([exported]).engine_env == {"LLAMA_ARG_CTX_SIZE": "4096"}


def test_units_and_consoles_of_other_kinds() -> None:
    quadlet = "[Container]\nImage=ghcr.io/ggml-org/llama.cpp:server-cuda\nExec=-m x.gguf\nEnvironment=A=1"
    command = read_command([quadlet])
    assert (command.arguments, command.container_env) == (("-m", "x.gguf"), {"A": "1"})
    powershell = '$env:LLAMA_ARG_CTX_SIZE = "4096"\n& "C:\\llm\\llama-server.exe" `\n  -m x.gguf'
    assert read_command([powershell]).engine_env == {"LLAMA_ARG_CTX_SIZE": "4096"}
    unit = "[Service]\nExecStart=llama-server \\\n  -m x.gguf \\\n  # experts\n  --n-cpu-moe 9\n"
    assert read_command([unit]).arguments == ("-m", "x.gguf", "--n-cpu-moe", "9")


def test_an_entrypoint_is_what_the_image_starts() -> None:
    image = "ghcr.io/ggml-org/llama.cpp:full-cuda-b9174"
    command = read_command([f"docker run -e A=1 --entrypoint /app/llama-server {image} -m x.gguf"])
    assert (command.arguments, command.engine_version) == (("-m", "x.gguf"), "b9174")
    assert command.argv[-3:] == (image, "-m", "x.gguf")


def test_the_line_stays_as_it_was_written() -> None:
    text = 'cd "$HOME" && A="b c" nohup vllm serve ~/models/"my model" --port "$PORT" > $HOME/log 2>&1 &'
    assert read_command([text]).shell() == text


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.9.1-cu126", "0.9.1"),
        ("vllm/vllm-openai:v0.31.0-ubuntu2404", "0.31.0"),
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai:nightly-0123abc", None),
    ],
)
def test_a_tag_with_a_suffix_names_a_version(image: str, version: str | None) -> None:
    assert read_command([f"docker run --gpus all {image} --model m"]).engine_version == version


@pytest.mark.parametrize(
    ("image", "on_cpu"),
    [
        ("vllm/vllm-openai-cpu:v0.32.0", True),
        ("vllm/vllm-openai:v0.32.0", False),
        ("ghcr.io/ggml-org/llama.cpp:server", True),
        ("ghcr.io/ggml-org/llama.cpp:server-b11434", True),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda-b11434", False),
        ("ghcr.io/ggml-org/llama.cpp:server-vulkan", False),
    ],
)
def test_an_image_says_what_it_runs_on(image: str, on_cpu: bool) -> None:
    assert read_command([f"docker run {image} -m x.gguf"]).on_cpu is on_cpu


@pytest.mark.parametrize(
    "text", ["$(" * 200_000, "a" * 300_000, "vllm " * 20_000, "{" * 100_000, "'" * 99_999]
)
def test_hostile_lines_are_refused_at_once(text: str) -> None:
    with pytest.raises(UsageError):
        read_command([text])
