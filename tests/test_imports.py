"""Imports run one way: inspector <- planner <- serving <- front ends."""

from __future__ import annotations

import ast
from pathlib import Path

import ropewalk

RANK = {
    "inspector": 0,
    "engines": 1,
    "planner": 2,
    "serving": 3,
    "checking": 4,
    "measuring": 4,
    "emit": 4,
    "lab": 4,
    "doctor": 5,
    "core": 5,
    "report": 6,
    "cli": 7,
    "tui": 7,
    "api": 7,
}
HEAVY = {
    "rich",
    "pydantic",
    "httpx2",
    "huggingface_hub",
    "yaml",
    "textual",
    "torch",
    "tokenizers",
    "xllamacpp",
    "fastapi",
    "vllm",
}
ROOT = Path(ropewalk.__file__).parent


def imported(path: Path, *, top_level_only: bool) -> set[str]:
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def test_no_part_imports_a_later_one() -> None:
    wrong = []
    for path in ROOT.rglob("*.py"):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for name in imported(path, top_level_only=False):
            head, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if head == "ropewalk" and RANK.get(other, -1) > RANK.get(part, 9):
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


def test_the_inspector_and_the_planner_import_no_engine_and_no_front_end() -> None:
    for part in ("inspector", "planner"):
        for path in (ROOT / part).rglob("*.py"):
            names = {name.partition(".")[0] for name in imported(path, top_level_only=True)}
            assert names.isdisjoint(HEAVY), path


def test_the_planner_is_pure() -> None:
    for path in (ROOT / "planner").rglob("*.py"):
        names = {name.partition(".")[0] for name in imported(path, top_level_only=False)}
        assert names.isdisjoint(
            {"os", "pathlib", "time", "datetime", "socket", "subprocess", "random", "sys"}
        ), path
