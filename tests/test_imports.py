"""Imports run one way: inspector <- planner <- serving <- front ends."""

from __future__ import annotations

import ast
from dataclasses import is_dataclass
from graphlib import TopologicalSorter
from importlib import import_module
from inspect import isfunction
from pathlib import Path
from typing import get_origin

import ropewalk
from ropewalk.measuring import events

# Every module at the top has a rank, and imports those of lower ranks and of its own only.
RANK = {
    "_version": 0,
    "errors": 0,
    "findings": 0,
    "jsonio": 0,
    "limits": 0,
    "pages": 0,
    "units": 1,
    "validation": 2,
    "engines": 1,
    "inspector": 2,
    "planner": 3,
    "serving": 4,
    "checking": 5,
    "measuring": 5,
    "emit": 5,
    "lab": 5,
    "doctor": 6,
    "documents": 6,
    "differences": 6,
    "core": 7,
    "report": 8,
    "tui": 9,
    "api": 9,
    "cli": 10,
    "__init__": 11,
    "__main__": 11,
}
FRONT_ENDS = ("cli", "tui", "api")
ROOMS = ("planner", "checking", "serving", "measuring")  # behind the core
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


def test_every_module_has_a_rank() -> None:
    assert {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in ROOT.rglob("*.py")} == set(RANK)


def test_no_part_imports_a_later_one() -> None:
    wrong = []
    for path in ROOT.rglob("*.py"):
        part = path.relative_to(ROOT).parts[0].removesuffix(".py")
        for name in imported(path, top_level_only=False):
            head, _, rest = name.partition(".")
            other = rest.partition(".")[0]
            if head == "ropewalk" and other and other != part and RANK[other] >= RANK[part]:
                wrong.append(f"{path.relative_to(ROOT)} imports {name}")
    assert wrong == []


def test_no_modules_import_each_other() -> None:
    """Not inside a function, nor for a type checker alone either."""
    names = {
        ".".join(path.relative_to(ROOT.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in ROOT.rglob("*.py")
    }
    graph: dict[str, set[str]] = {}
    for name, path in names.items():
        found = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom))
        used = {
            full if (full := f"{node.module}.{alias.name}") in names else node.module
            for node in found
            for alias in node.names
        }
        graph[name] = {other for other in used if other in names} - {name}
    TopologicalSorter(graph).prepare()  # raises CycleError with the circle


def is_record(value: object) -> bool:
    """What carries or names something and does nothing: a record, an error, a type, a constant."""
    if isinstance(value, type):
        return is_dataclass(value) or issubclass(value, Exception) or hasattr(value, "__required_keys__")
    return value is events or get_origin(value) is not None or not callable(value)


def is_behind(module: str) -> bool:
    head, _, rest = module.partition(".")
    return head == "ropewalk" and rest.partition(".")[0] in ROOMS


def test_front_ends_call_the_core_and_nothing_behind_it() -> None:
    """A class that does something may be named by a type checker's imports alone."""
    wrong = []
    for part in FRONT_ENDS:
        for path in (ROOT / part).rglob("*.py"):
            tree = ast.parse(path.read_text())
            named = {
                inner
                for node in ast.walk(tree)
                if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
                for inner in ast.walk(node)
            }
            for node in ast.walk(tree):
                if not isinstance(node, ast.ImportFrom) or not is_behind(node.module or ""):
                    continue
                for alias in node.names:
                    value = getattr(import_module(node.module or ""), alias.name)
                    if isfunction(value) if node in named else not is_record(value):
                        wrong.append(f"{path.relative_to(ROOT)} imports {node.module}.{alias.name}")
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
