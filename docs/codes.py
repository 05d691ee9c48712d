"""Every code of a finding or an error, gathered from the source, with the meanings of ``codes.toml``.

A code is a string that reaches a parameter or field named ``code``. Followed are: arguments of whatever
takes one, its default, ``default_code`` of an error, assignments to a name or attribute ``code``, and the
tables ``_SAYS`` (keys) and ``_FAILURES`` (values).
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeGuard

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "ropewalk"
SEVERITIES = ("error", "warning", "info")
# Where a code is told, by the first folders of its file that match.
PARTS = {
    "Reading a file": ("inspector/readers", "inspector/checkpoint"),
    "What the config and the tensors say": ("inspector",),
    "Planning": ("planner",),
    "Checking a command line": ("checking",),
    "Serving and measuring": ("serving", "measuring", "doctor"),
    "Attention by hand": ("lab",),
    "Everywhere": ("errors", "cli", "differences"),
    "The HTTP service": ("api",),
}


@dataclass(slots=True)
class Code:
    """One code: the files that use it, and the severities it comes with as a finding."""

    files: set[str] = field(default_factory=set)
    severities: set[str] = field(default_factory=set)
    raised: bool = False

    @property
    def kind(self) -> str:
        """Severities as a finding, and whether it ends a command as an error."""
        words = [severity for severity in SEVERITIES if severity in self.severities]
        return ", ".join([*words, *(["raised"] if self.raised else [])])

    @property
    def part(self) -> str:
        """The first part of the product that tells it."""
        return next(
            part
            for part, folders in PARTS.items()
            if any(file.startswith(folder) for file in self.files for folder in folders)
        )


@dataclass(frozen=True, slots=True)
class Taker:
    """Where a function or record takes a code, and with which severities it tells it (none: as given)."""

    at: int
    severities: list[str]


@cache
def all_codes() -> dict[str, Code]:
    """Every code of the source, in alphabetical order."""
    trees = {
        path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text("utf-8"))
        for path in sorted(SOURCE.rglob("*.py"))
    }
    public = _merged(_takers(tree) for tree in trees.values())
    codes: dict[str, Code] = {}
    for file, tree in trees.items():
        own = {**{name: at for name, at in public.items() if not name.startswith("_")}, **_takers(tree)}
        for name, severities, raised in _uses(tree, own):
            code = codes.setdefault(name, Code())
            code.files.add(file)
            code.severities.update(severities)
            code.raised = code.raised or raised
    return dict(sorted(codes.items()))


def _merged(parts: Iterator[dict[str, Taker]]) -> dict[str, Taker]:
    return {name: at for part in parts for name, at in part.items()}


def _takers(tree: ast.Module) -> dict[str, Taker]:
    """Functions and records with a ``code``, and its place among their positional arguments."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            fields = (one.target for one in node.body if isinstance(one, ast.AnnAssign))
            names, severities = [getattr(target, "id", "") for target in fields], []
        elif isinstance(node, ast.FunctionDef) and node.name != "__init__":
            names = [argument.arg for argument in node.args.args if argument.arg != "self"]
            severities = [text for one in ast.walk(node) if _is_finding(one) for text in _severities(one)]
        else:
            continue
        if "code" in names:
            found[node.name] = Taker(names.index("code"), severities)
    return found


def _is_finding(node: ast.AST) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Finding"


def _uses(tree: ast.Module, takers: Mapping[str, Taker]) -> Iterator[tuple[str, list[str], bool]]:
    """Code, severities, and whether it is raised."""
    tells = any(getattr(node, "id", "") == "_SAYS" for node in ast.walk(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            given = next((word.value for word in node.keywords if word.arg == "code"), None)
            taker = takers.get(name)
            if given is None and taker and len(node.args) > taker.at:
                given = node.args[taker.at]
            for code in _texts(given):
                severities = _severities(node) or (taker.severities if taker else [])
                yield code, severities, not severities
        elif isinstance(node, ast.FunctionDef):
            for code in _default(node):
                yield code, [], True
        elif isinstance(node, ast.Assign):
            for code, severities in _assigned(node):
                own = ["error"] if tells else severities
                yield code, own, not own


def _assigned(node: ast.Assign) -> Iterator[tuple[str, list[str]]]:
    """Code and severities; none where the code ends up in an error."""
    for target in node.targets:
        name, value = getattr(target, "id", getattr(target, "attr", "")), node.value
        if name in ("code", "default_code"):
            yield from ((code, []) for code in _texts(value))
        elif name == "_SAYS" and isinstance(value, ast.Dict):
            yield from ((code, ["error"]) for key in value.keys for code in _texts(key))
        elif name == "_FAILURES" and isinstance(value, ast.Dict):
            yield from ((code, []) for one in value.values for code in _texts(one))
        elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for each, one in zip(target.elts, value.elts, strict=True):
                if getattr(each, "id", "") == "code":
                    yield from ((code, []) for code in _texts(one))


def _default(node: ast.FunctionDef) -> list[str]:
    pairs = zip(node.args.args[::-1], node.args.defaults[::-1], strict=False)
    named = [*pairs, *zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)]
    return [code for argument, value in named if argument.arg == "code" for code in _texts(value)]


def _texts(node: ast.expr | None) -> list[str]:
    """The strings that an expression may resolve to; none where it passes on another's code."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return [*_texts(node.body), *_texts(node.orelse)]
    if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get" and len(node.args) == 2:
        return _texts(node.args[1])
    return []


def _severities(call: ast.Call) -> list[str]:
    given = [*call.args, *(word.value for word in call.keywords if word.arg == "severity")]
    stated = [text for node in given for text in _texts(node) if text in SEVERITIES]
    open_ended = any(getattr(node, "id", "") == "severity" for node in given)
    return ["error", "warning"] if open_ended else stated


def meanings() -> dict[str, str]:
    """The hand-written meaning of each code."""
    return dict(tomllib.loads((Path(__file__).parent / "codes.toml").read_text("utf-8")))


def findings_page() -> str:
    """``findings.md``. Raises :class:`ValueError` for a code without a meaning."""
    codes, said = all_codes(), meanings()
    if missing := sorted(codes.keys() - said.keys()):
        raise ValueError(f"docs/codes.toml needs a meaning for {missing}")
    lines = [_INTRODUCTION]
    for part in PARTS:
        rows = {name: code for name, code in codes.items() if code.part == part}
        lines += [f"\n## {part}\n", "| code | comes as | what it means |", "|---|---|---|"]
        lines += [f"| `{name}` | {code.kind} | {said[name]} |" for name, code in rows.items()]
    return "\n".join(lines) + "\n"


_INTRODUCTION = """# Findings and errors

A finding is something worth telling about an input: `{code, severity, message, where}`. `where` names the
field, tensor, file or flag and the values that disagree. An error ends a command; its record
(`ropewalk.error/1`) has the same `code`, `message` and `where`. Codes are stable: scripts may rely on them,
on nothing in the message.

`error`, `warning` and `info` are the severities that a code comes with as a finding, `raised` says that it
can end a command. A severity may depend on the values: a context beyond what was trained is a warning where
the engine serves it and an error where it does not. The exit statuses are in the
[command line reference](cli.md#exit-status)."""
