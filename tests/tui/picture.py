"""Pictures of screens, compared with those that were looked at and committed.

``ROPEWALK_PICTURES=take pytest tests/tui`` takes them anew; look at each before you commit it.
"""

from __future__ import annotations

import difflib
import html
import os
import re
from pathlib import Path

from textual.app import App
from textual.widgets import Input

FOLDER = Path(__file__).with_name("pictures")
# What a picture does without: fonts from the network, and clipping.
_LEFT_OUT = re.compile(
    r"@font-face \{.*?\}\s*"
    r"|<clipPath.*?</clipPath>\s*"
    r'|\ clip-path="[^"]*"',
    re.DOTALL,
)
_NAMES = re.compile(r"terminal-\d+-")
_TEXTS = re.compile(r'<text class="r\d+" x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+">(.*?)</text>')


def require_picture(app: App[None], name: str) -> None:
    """Fail where the screen does not look as it did, with the lines that differ."""
    for field in app.screen.query(Input):
        field.cursor_blink = False
    taken, path = take(app), FOLDER / f"{name}.svg"
    if os.environ.get("ROPEWALK_PICTURES") == "take":
        FOLDER.mkdir(exist_ok=True)
        path.write_text(taken, encoding="utf-8")
    known = path.read_text(encoding="utf-8")
    if taken != known:
        lines = difflib.unified_diff(words(known), words(taken), "as it was", "as it is", lineterm="")
        raise AssertionError("\n".join(lines) or f"{path.name}: only colours differ")


def take(app: App[None]) -> str:
    """The screen as SVG."""
    drawn = app.export_screenshot(title="ropewalk", simplify=True)
    return _NAMES.sub("", _LEFT_OUT.sub("", drawn))


def words(picture: str) -> list[str]:
    """The lines of a picture without colours."""
    lines: dict[float, str] = {}
    for x, y, text in _TEXTS.findall(picture):
        column = round(float(x) / 12.2)  # rich draws a character 12.2 units wide
        lines[float(y)] = lines.get(float(y), "").ljust(column) + html.unescape(text)
    return [lines[y].replace("\xa0", " ") for y in sorted(lines)]
