"""The stylesheet that lies beside a module."""

from __future__ import annotations

from pathlib import Path


def stylesheet(module: str) -> str:
    """The text of ``NAME.tcss`` for ``NAME.py``; pass ``__file__``."""
    return Path(module).with_suffix(".tcss").read_text(encoding="utf-8")
