"""Numbers as std::stoi, std::stof and vLLM's parser read them."""

from __future__ import annotations

import pytest

from ropewalk.checking.numbers import Prefix, human_int, human_length, stof, stoi


def test_stoi_reads_leading_digits_only() -> None:
    assert stoi("128k") == Prefix(128, "k")
    assert stoi(" -1") == Prefix(-1, "")
    assert stoi("4096.5") == Prefix(4096, ".5")


@pytest.mark.parametrize("text", ["abc", "", "k128", "4294967296"])
def test_stoi_throws(text: str) -> None:
    with pytest.raises(ValueError):
        stoi(text)


def test_stof_reads_a_leading_decimal_number() -> None:
    assert stof("1e6x") == Prefix(1e6, "x")
    assert stof(".5") == Prefix(0.5, "")
    with pytest.raises(ValueError):
        stof("four")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("128k", 128000),
        ("128K", 131072),
        ("25.6k", 25600),
        ("1M", 1048576),
        ("1m", 1000000),
        ("8k", 8000),
        ("8K", 8192),
        ("131072", 131072),
        ("2G", 2147483648),
    ],
)
def test_vllm_counts(text: str, value: int) -> None:
    """vllm 0.33's parser (vllm-project/vllm#47608): small letters count in thousands."""
    assert human_int(text) == value


def test_vllm_refuses_decimals_with_binary_units_and_binary_spellings() -> None:
    for text in ("25.6K", "8Ki", "8 kB", "eight"):
        with pytest.raises(ValueError):
            human_int(text)


def test_a_length_may_be_auto() -> None:
    assert (human_length("auto"), human_length("-1"), human_length("8K")) == (-1, -1, 8192)
