"""Parsing and formatting of sizes and token counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk import units
from ropewalk.errors import UsageError


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("131072", 131072),
        ("128k", 131072),
        ("128Ki", 131072),
        ("1M", 1048576),
        ("1.5k", 1536),
        ("12_288", 12288),
    ],
)
def test_token_counts_use_binary_units(text: str, tokens: int) -> None:
    assert units.parse_tokens(text) == tokens


@pytest.mark.parametrize(
    ("text", "size"),
    [("24GiB", 25769803776), ("24GB", 24 * 10**9), ("24 gib", 25769803776), ("1.5 KiB", 1536), ("100", 100)],
)
def test_sizes_tell_iec_from_si(text: str, size: int) -> None:
    assert units.parse_size(text) == size


@pytest.mark.parametrize("text", ["", "k", "-1", "0", "1.3", "128kb", "１２", "1e3", "inf", "9" * 30])
def test_what_is_no_token_count_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError) as error:
        units.parse_tokens(text)
    assert error.value.where == {"value": text}
    assert error.value.exit_status == 2


@given(st.integers(min_value=1, max_value=2**53))
def test_plain_integers_round_trip(count: int) -> None:
    assert units.parse_tokens(units.format_tokens(count)) == count
    assert units.parse_size(str(count)) == count


def test_formats_are_those_of_the_pages() -> None:
    assert units.format_bytes(16381470720) == "15.26 GiB"
    assert units.format_bytes(1023) == "1023 B"
    assert units.format_gib(19327352832) == "18.00 GiB"
    assert units.format_mib(283115520) == "270.00 MiB"
    assert units.format_count(8190735360) == "8.19 B"
    assert units.format_tokens_short(131072) == "128k"
    assert units.format_tokens_short(11878) == "11.6k"
    assert units.format_seconds(75.2) == "1 min 15 s"
    assert units.format_seconds(0.44) == "0.4 s"
