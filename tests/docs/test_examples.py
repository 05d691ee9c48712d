"""The Python examples of the documentation pass a strict type checker, as a user's own code would."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
# Names that a page's later blocks take from its first one, or from the text around them.
_GIVEN = "import ropewalk\n"


def examples() -> Iterator[tuple[str, str]]:
    """A module for each page with examples: its Python blocks, one after the other."""
    for page in PAGES:
        blocks = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
        if blocks:
            yield page.stem.replace("-", "_").lower(), _GIVEN + "\n".join(blocks)


def test_examples_pass_a_type_checker(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    written = []
    for name, code in examples():
        path = tmp_path / f"example_{name}.py"
        path.write_text(code, "utf-8")
        written.append(str(path))
    assert len(written) > 1
    out, err, status = api.run(
        ["--strict", "--follow-imports=silent", "--cache-dir", str(ROOT / ".mypy_cache"),
         "--config-file", str(ROOT / "pyproject.toml"), *written]
    )  # fmt: skip
    assert (status, err) == (0, ""), out
