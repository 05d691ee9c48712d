"""The generated pages are those that the code would write, and nothing that they list is left out."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from docs.codes import all_codes, meanings
from docs.generate import PAGES, rendered

from ropewalk import errors
from ropewalk.cli.app import COMMANDS
from ropewalk.inspector.derive.families import TABLE
from ropewalk.planner.rope.versions import RULES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_a_committed_page_is_current(name: str) -> None:
    if name == "http.md":
        pytest.importorskip("fastapi")
    assert (DOCS / name).read_text("utf-8") == rendered(name), "run: make docs"


def test_every_code_has_a_meaning_and_every_meaning_a_code() -> None:
    assert all_codes().keys() == meanings().keys()


def test_codes_that_tests_look_for_are_listed() -> None:
    """The tests know codes from seeing them at run time: a second way to find one that is not listed."""
    seen = {code for path in (ROOT / "tests").rglob("test_*.py") for code in _compared(path)}
    known = all_codes().keys()
    assert len(seen) > 40
    assert not {code for code in seen if code not in known}


def _compared(path: Path) -> list[str]:
    """Strings that something's ``code`` is compared with."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Compare) and getattr(node.left, "attr", "") == "code":
            found += [one.value for one in node.comparators if isinstance(one, ast.Constant)]
    return [code for code in found if isinstance(code, str)]


def test_codes_of_our_errors_are_listed() -> None:
    own = {value.default_code for value in vars(errors).values() if hasattr(value, "default_code")}
    assert len(own) >= 10
    assert own <= all_codes().keys()


def test_codes_of_the_contract_are_known(shared: Path) -> None:
    text = (
        (shared / "contract.md").read_text("utf-8").partition("those used so far:")[2].partition(". Add")[0]
    )
    stated = set(re.findall(r"`(\w+)`", text))
    assert len(stated) > 50
    assert stated <= all_codes().keys()


def test_how_a_code_comes_is_read_from_the_source() -> None:
    codes = all_codes()
    assert codes["context_over_trained"].kind == "error, warning"
    assert codes["hole_in_data"].kind == "error"
    assert codes["hub_unreachable"].kind == "raised"
    assert codes["does_not_fit"].kind == "error, raised"


def test_every_command_family_and_rule_is_on_its_page() -> None:
    cli, families, engines = (rendered(f"{name}.md") for name in ("cli", "families", "engines"))
    for section in COMMANDS.values():
        assert all(f"\n### {name}\n" in cli for name in section)
    assert all(f"`{name}`" in families for family in TABLE for name in family.model_types)
    assert all(rule.source in engines for rule in RULES)
