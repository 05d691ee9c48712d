"""Flags out of an engine's own help."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ropewalk.engines import EngineBuild
from ropewalk.serving.engines.known_flags import flags_in, known_flags, unknown_flags

# llama.cpp b11434, llama-server --help
LLAMA_HELP = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
-c,    --ctx-size N                     size of the prompt context (default: 0, 0 = loaded from model)
                                        (env: LLAMA_ARG_CTX_SIZE)
-kvu,  --kv-unified, -no-kvu, --no-kv-unified
                                        use single unified KV buffer; see --parallel and -np
--rope-scaling {none,linear,yarn}       RoPE frequency scaling method
-fit,  --fit [on|off]                   whether to adjust unset arguments, e.g. --mentioned-only
"""
# vLLM 0.32.0, vllm serve --help=all
VLLM_HELP = """\
  --max-model-len MAX_MODEL_LEN
                        Model context length. If unspecified, see `--hf-overrides`.
  --enable-prefix-caching, --no-enable-prefix-caching
  --tensor-parallel-size TENSOR_PARALLEL_SIZE, -tp TENSOR_PARALLEL_SIZE
"""


def test_flags_of_llama_server() -> None:
    assert flags_in(LLAMA_HELP.splitlines()) == {
        *(
            "-h",
            "--help",
            "--usage",
            "-c",
            "--ctx-size",
            "-kvu",
            "--kv-unified",
            "-no-kvu",
            "--no-kv-unified",
        ),
        *("--rope-scaling", "-fit", "--fit"),
    }


def test_flags_of_vllm() -> None:
    assert flags_in(VLLM_HELP.splitlines()) == {
        *("--max-model-len", "--enable-prefix-caching", "--no-enable-prefix-caching"),
        *("--tensor-parallel-size", "-tp"),
    }


def test_values_are_no_flags() -> None:
    argv = ("-c", "512", "--cache-ram", "-1", "--new-flag", "--hf-overrides", '{"a":-1}')
    known = frozenset({"-c", "--cache-ram", "--hf-overrides"})
    assert unknown_flags(argv, known) == ("--new-flag",)


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EngineBuild:
    """An engine that counts how often it was asked."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    program = tmp_path / "llama-server"
    flags = "\n".join(f"--flag-{chr(ord('a') + n)} N    what it does" for n in range(26))
    program.write_text(
        f"#!{sys.executable}\nopen({str(tmp_path / 'asked')!r}, 'a').write('x')\nprint({flags!r})\n"
    )
    program.chmod(0o755)
    return EngineBuild(name="llama-server", engine="llama-server", version="1", path=str(program))


def test_an_engine_is_asked_once(build: EngineBuild, tmp_path: Path) -> None:
    flags = known_flags(build)
    assert flags is not None
    assert "--flag-z" in flags
    assert known_flags(build) == flags
    assert (tmp_path / "asked").read_text() == "x"


def test_an_engine_without_a_help(build: EngineBuild, tmp_path: Path) -> None:
    Path(build.path).write_text(f"#!{sys.executable}\nprint('--one-flag')\n")
    assert known_flags(build) is None
    assert not (tmp_path / "cache").exists()


def test_the_embedded_engine_knows_its_table_and_what_the_launcher_does_for_it() -> None:
    flags = known_flags(EngineBuild(name="embedded", engine="llama-server", version=None, path="python"))
    assert flags is not None
    assert {"-c", "--cache-ram", "--override-kv"} <= flags
    assert "--no-such-flag" not in flags
