"""The inverse of the memory formula."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ropewalk.planner.fit import largest


@pytest.mark.parametrize(
    ("limit", "found"), [(99, None), (100, 256), (199, 256), (200, 512), (1000, 2560), (10**12, 2**31 - 1)]
)
def test_the_last_count_before_the_next_step(limit: int, found: int | None) -> None:
    def needs(count: int) -> int:
        return 100 * -(-count // 256)

    assert largest(needs, limit, guess=4096) == found


def test_few_calls() -> None:
    calls = []

    def needs(count: int) -> int:
        calls.append(count)
        return 10**9 + 147_456 * (-(-count // 16) * 16)

    assert largest(needs, 24 * 2**30, guess=131_072) == (24 * 2**30 - 10**9) // 147_456 // 16 * 16
    assert len(calls) < 20


@given(
    steps=st.lists(st.integers(0, 50), min_size=1, max_size=60),
    limit=st.integers(0, 1500),
    guess=st.integers(1, 100),
)
def test_inverse_of_any_rising_function(steps: list[int], limit: int, guess: int) -> None:
    def needs(count: int) -> int:
        return sum(steps[: min(count, len(steps))]) + max(0, count - len(steps))

    found = largest(needs, limit, guess=guess)
    if found is None:
        assert needs(1) > limit
    else:
        assert needs(found) <= limit < needs(found + 1)
