"""The most frequent block of a model: how its parameters divide, tensor by tensor."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from ropewalk.inspector.records import Block
from ropewalk.report.figures import bar
from ropewalk.report.tensors import shape_text
from ropewalk.tui.text import clean
from ropewalk.tui.themes import stylesheet
from ropewalk.units import format_count

_BAR = 14


class BlockBars(Static):
    """Shares as bars, then the tensors of the block."""

    DEFAULT_CSS = stylesheet(__file__)

    def show(self, block: Block | None) -> None:
        """Draw a block; say so where none was read."""
        self.update(Content("no tensor was read") if block is None else block_page(block))


def block_page(block: Block) -> Content:
    """Attention and feed-forward with their shares, the rest where there is one, and every tensor."""
    rest = block.parameters - block.attention_parameters - block.feed_forward_parameters
    parts = (
        ("attention", block.attention_parameters, "$orange"),
        ("feed-forward", block.feed_forward_parameters, "$blue"),
        ("rest", rest, "$grey"),
    )
    lines = [Content.assemble((f"{block.parameters:,}", "bold"), " parameters")]
    for name, count, style in (part for part in parts if part[1]):
        share = count / block.parameters if block.parameters else 0.0
        lines.append(Content.assemble(f"{name:12} {share:6.1%} ", (bar(share, _BAR), style)))
    for tensor in block.tensors:
        figure = f"{format_count(tensor.parameters):>8} "
        lines.append(
            Content.assemble((figure, "$grey"), clean(tensor.name), (f" {shape_text(tensor.shape)}", "dim"))
        )
    return Content("\n").join(lines)
