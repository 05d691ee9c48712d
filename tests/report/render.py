"""A page as plain text of a given width, and its comparison with a stored one."""

from __future__ import annotations

import os
from pathlib import Path

from ropewalk.report.page import Block
from ropewalk.report.terminal import plain

PAGES = Path(__file__).with_name("pages")


def render(page: Block, width: int = 80) -> str:
    """What ``ropewalk`` writes to a terminal of this width, without colour."""
    return plain(page, width)


def check_page(name: str, page: Block) -> None:
    """Compare the page at 80 and 120 columns with ``pages/NAME-WIDTH.txt``.

    ``ROPEWALK_UPDATE_PAGES=1`` writes the files instead: look at the difference before committing it.
    """
    for width in (80, 120):
        stored = PAGES / f"{name}-{width}.txt"
        text = render(page, width)
        if os.environ.get("ROPEWALK_UPDATE_PAGES"):
            stored.parent.mkdir(exist_ok=True)
            stored.write_text(text, encoding="utf-8")
        assert text == stored.read_text(encoding="utf-8"), f"{stored.name} differs; see check_page"
