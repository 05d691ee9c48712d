"""A dark and a light theme in colours that the colour-blind tell apart.

The hues are those of Okabe and Ito (2008), lightened or darkened until each has a contrast of 4.5 : 1 or
more against its background. Every mark in the application has a symbol of its own beside its colour.
"""

from __future__ import annotations

from pathlib import Path

from textual.theme import Theme

_DARK = {
    "blue": "#56b4e9",
    "orange": "#e69f00",
    "green": "#2fc296",
    "purple": "#dc8fba",
    "yellow": "#f0e442",
    "red": "#ff7a45",
    "grey": "#8b98a5",
    "frame": "#3a4754",
}
_LIGHT = {
    "blue": "#0067a3",
    "orange": "#8f5a00",
    "green": "#00704f",
    "purple": "#96386e",
    "yellow": "#6e6200",
    "red": "#b33c00",
    "grey": "#5b6670",
    "frame": "#aab5c0",
}
# A cursor that leaves the colours of what it is on readable.
_CURSOR_DARK = {"block-cursor-background": "#1d4e78", "block-cursor-foreground": "#ffffff"}
_CURSOR_LIGHT = {"block-cursor-background": "#c3def2", "block-cursor-foreground": "#10151b"}
DARK = Theme(
    name="ropewalk-dark",
    primary=_DARK["blue"],
    secondary=_DARK["purple"],
    accent=_DARK["orange"],
    success=_DARK["green"],
    warning=_DARK["yellow"],
    error=_DARK["red"],
    foreground="#dde3ea",
    background="#10151b",
    surface="#161d25",
    panel="#222c37",
    dark=True,
    variables=_DARK | _CURSOR_DARK,
)
LIGHT = Theme(
    name="ropewalk-light",
    primary=_LIGHT["blue"],
    secondary=_LIGHT["purple"],
    accent=_LIGHT["orange"],
    success=_LIGHT["green"],
    warning=_LIGHT["yellow"],
    error=_LIGHT["red"],
    foreground="#1b2127",
    background="#f6f8fa",
    surface="#ffffff",
    panel="#dfe5eb",
    dark=False,
    variables=_LIGHT | _CURSOR_LIGHT,
)
THEMES = {theme.name: theme for theme in (DARK, LIGHT)}


def stylesheet(module: str) -> str:
    """The text of ``NAME.tcss`` for ``NAME.py``; pass ``__file__``."""
    return Path(module).with_suffix(".tcss").read_text(encoding="utf-8")
