"""The pattern of a model's layers: one cell per layer, and in words."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from ropewalk.inspector.layer_kinds import LayerGroup
from ropewalk.report import layers
from ropewalk.tui.themes import stylesheet

STYLES = {
    "full": "$orange", "sliding": "$blue", "chunked": "$green", "latent": "$purple",
    "recurrent": "$green", "cross": "$yellow", "shared": "$grey", "none": "$grey",
}  # fmt: skip


class LayerStrip(Static):
    """A coloured strip with a symbol of its own for each kind of layer."""

    DEFAULT_CSS = stylesheet(__file__)

    def show(self, groups: Sequence[LayerGroup]) -> None:
        """Draw the layers in their order; nothing where none are known."""
        self.display = bool(groups)
        self.update(strip(groups))


def strip(groups: Sequence[LayerGroup]) -> Content:
    """``36 full  ████``: the words first, they say what the strip shows."""
    cells = [(layers.GLYPHS[group.kind], STYLES[group.kind]) for group in layers.sequence(groups)]
    return Content.assemble((layers.words(groups), "bold"), "  ", *cells).simplify()
