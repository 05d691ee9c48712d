"""llama-server's own way of reading its arguments, and what it stops at."""

from __future__ import annotations

import pytest

from ropewalk.checking import CheckResult, check_command


def check(text: str, version: str | None = None) -> CheckResult:
    return check_command([f"llama-server -m x.gguf -cram 0 -np 1 {text}"], engine_version=version)


def codes(result: CheckResult) -> list[str]:
    return [finding.code for finding in result.findings if finding.code != "checkpoint_not_read"]


def test_values_are_typed_under_the_long_spelling() -> None:
    result = check("-c 8192 -ngl 99 --rope_freq_base 1e6 --no-webui --swa-full -ts 3,1")
    assert result.parsed == {
        "--model": "x.gguf",
        "--cache-ram": 0,
        "--parallel": 1,
        "--ctx-size": 8192,
        "--gpu-layers": "99",
        "--rope-freq-base": 1e6,
        "--ui": False,
        "--swa-full": True,
        "--tensor-split": "3,1",
    }
    assert (result.ok, result.not_judged) == (None, ("model", "memory"))


def test_128k_is_128() -> None:
    """llama-server 0.6.0-dev, measured: ``-c 128k`` starts with n_ctx 256."""
    result = check("-c 128k")
    assert (result.parsed["--ctx-size"], result.resolved.kv_cells) == (128, 256)
    assert codes(result) == ["unit_suffix"]
    assert result.findings[0].where["fix"] == "-c 131072"
    assert result.corrected is not None
    assert result.corrected.command == "llama-server -m x.gguf -cram 0 -np 1 -c 131072"


def test_the_prompt_cache_counts_in_mib() -> None:
    result = check("--cache-ram 8G")
    assert result.parsed["--cache-ram"] == 8
    assert result.findings[0].where["fix"] == "--cache-ram 8192"


@pytest.mark.parametrize(
    ("text", "code", "repaired"),
    [
        ("--ctx-size=4096", "unknown_flag", "--ctx-size 4096"),
        ("--ctx-sise 4096", "unknown_flag", "--ctx-size 4096"),
        ("-fa -ngl 99", "bad_value", "-fa on -ngl 99"),
        ("-ngl 99 -fa", "bad_value", "-ngl 99 -fa on"),
        ("--no-mmap -c 4096", "removed_flag", "--load-mode none -c 4096"),
        ("--mlock", "removed_flag", "--load-mode mlock"),
        ("--draft-max 8", "removed_flag", "--spec-draft-n-max 8"),
        ("-ctv q8_0 -fa off", "cache_type_needs_flash_attention", "-ctv q8_0 -fa on"),
        ("-c -1", "bad_value", "-c 0"),
        ("--xyzzy 1 -c 512", "unknown_flag", "-c 512"),
    ],
)
def test_what_the_server_stops_at_and_how_it_should_read(text: str, code: str, repaired: str) -> None:
    result = check(text)
    assert (codes(result)[0], result.ok) == (code, False)
    assert result.corrected is not None
    assert result.corrected.command.rstrip() == f"llama-server -m x.gguf -cram 0 -np 1 {repaired}".rstrip()
    assert result.corrected.changed


@pytest.mark.parametrize(
    "text", ["-c many", "--rope-scaling longrope", "-ctk q9_9", "--parallel", "--rope-scal 2"]
)
def test_what_cannot_be_repaired_gets_no_command(text: str) -> None:
    result = check(text)
    assert codes(result)[0] in ("bad_value", "unknown_flag")
    assert result.corrected is None


def test_older_builds_have_the_options_that_are_gone() -> None:
    assert codes(check("--no-mmap", version="b8850")) == []


def test_an_option_that_a_newer_build_may_have_is_no_error() -> None:
    result = check("--quite-something", version="b99999")
    assert [(finding.code, finding.severity) for finding in result.findings][:-1] == [
        ("unknown_flag", "warning")
    ]


def test_variables_are_read_and_overruled() -> None:
    command = "LLAMA_ARG_CTX_SIZE=4096 LLAMA_ARG_NO_UI=1 llama-server -m x.gguf -cram 0 -np 1"
    result = check_command([command])
    assert (result.parsed["--ctx-size"], result.parsed["--ui"]) == (4096, False)
    overruled = check_command([f"{command} -c 8192"])
    assert overruled.parsed["--ctx-size"] == 8192
    assert codes(overruled) == ["setting_overruled"]


def test_a_broken_variable_is_repaired_on_the_command_line() -> None:
    result = check_command(["LLAMA_ARG_CTX_SIZE=32k llama-server -m x.gguf -cram 0 -np 1"])
    assert result.corrected is not None
    assert result.corrected.env == {}
    assert result.corrected.argv[-2:] == ("--ctx-size", "32768")


def test_idle_options_are_told() -> None:
    assert codes(check("-dt 0.1")) == ["flag_without_effect"]
