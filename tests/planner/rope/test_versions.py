"""Engine versions as engines print them."""

from __future__ import annotations

import pytest

from ropewalk.engines import EngineName
from ropewalk.planner.rope import versions
from ropewalk.planner.rope.versions import has, parse_version


@pytest.mark.parametrize(
    ("text", "engine", "expected"),
    [
        ("0.33.0", "vllm", (0, 33, 0)),
        ("v0.11.1", "vllm", (0, 11, 1)),
        ("0.30", "vllm", (0, 30, 0)),
        ("0.31.0.dev12+gabcdef", "vllm", (0, 31, 0)),
        ("nightly", "vllm", None),
        ("b11434", "llama-server", (11434,)),
        ("11434", "llama-server", (11434,)),
        ("version: 8850 (fc4ca27b)", "llama-server", (8850,)),
        ("2026.10.11549", "llama-server", (11549,)),
        ("0.6.0-dev", "llama-server", None),
        (None, "vllm", None),
    ],
)
def test_parse(text: str | None, engine: EngineName, expected: tuple[int, ...] | None) -> None:
    assert parse_version(text, engine) == expected


@pytest.mark.parametrize(
    ("rule", "before", "after"),
    [
        (versions.YARN_LENGTH_FROM_CONFIG, "0.29.0", "0.30.0"),
        (versions.ROPE_SCALING_FLAG_REMOVED, "0.11.0", "0.11.1"),
        (versions.ROPE_PARAMETERS_KEY, "0.11.2", "0.12.0"),
        (versions.YARN_LIFTS_TRAINED_CONTEXT, "b8850", "b11434"),
    ],
)
def test_rules_begin_where_they_begin(rule: versions.VersionRule, before: str, after: str) -> None:
    assert not has(rule, before)
    assert has(rule, after)
    assert has(rule, None)


def test_every_rule_names_its_pull_request() -> None:
    assert all("#" in rule.source for rule in versions.RULES)
