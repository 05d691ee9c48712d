"""The modules of a checkpoint, repeated blocks folded; children are made when a module is unfolded."""

from __future__ import annotations

from dataclasses import dataclass

from rich.style import Style
from rich.text import Text
from textual.message import Message
from textual.widgets import Tree
from textual.widgets.tree import TreeNode

from ropewalk.tui.modules import Module
from ropewalk.tui.text import clean, short_count
from ropewalk.tui.themes import stylesheet

_UNFOLDED = 2  # levels that are open at first


class ModuleTree(Tree[Module]):
    """The tree; the module under the cursor is what the table lists."""

    DEFAULT_CSS = stylesheet(__file__)

    @dataclass
    class Highlighted(Message):
        """The cursor is on this module."""

        module: Module

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__("", id=id)
        self.guide_depth = 2
        self.show_guides = False
        self.auto_expand = False

    def show(self, root: Module) -> None:
        self.clear()
        self.root.data = root
        self.root.set_label("all tensors")
        self._fill(self.root, depth=1)

    def _fill(self, node: TreeNode[Module], *, depth: int) -> None:
        """Make the children of a node; those near the root come unfolded while there are few of them."""
        if node.data is None or node.children or not node.data.children:
            return
        for module in node.data.children:
            child = node.add(Text(clean(module.label)), module, allow_expand=bool(module.children))
            if depth < _UNFOLDED and module.alike == 1 and module.children and len(node.data.children) < 8:
                self._fill(child, depth=depth + 1)
        if not node.is_expanded:
            node.expand()

    def on_tree_node_expanded(self, event: Tree.NodeExpanded[Module]) -> None:
        """Children are made when they are first looked at."""
        self._fill(event.node, depth=_UNFOLDED)

    def on_tree_node_highlighted(self, event: Tree.NodeHighlighted[Module]) -> None:
        """Tell which module it is."""
        event.stop()
        if event.node.data is not None:
            self.post_message(self.Highlighted(event.node.data))

    def on_tree_node_selected(self, event: Tree.NodeSelected[Module]) -> None:
        """Enter and a click unfold and fold."""
        event.stop()
        if event.node.allow_expand:
            event.node.toggle()

    def render_label(self, node: TreeNode[Module], base_style: Style, style: Style) -> Text:
        """The name on the left, how many parameters on the right."""
        mark = "  " if not node.allow_expand else "▾ " if node.is_expanded else "▸ "
        name, figure = f"{mark}{node.label}", ""
        if node.data is not None:
            times = f" ×{node.data.alike}" if node.data.alike > 1 else ""
            name, figure = f"{name}{times}", short_count(node.data.elements)
        indent = self.guide_depth * _depth(node)
        room = max(4, self.scrollable_content_region.width - indent - len(figure) - 1)
        text = Text(name, style=style, no_wrap=True)
        text.truncate(room, overflow="ellipsis", pad=True)
        return text.append(f" {figure}", style=style + Style(dim=True))


def _depth(node: TreeNode[Module]) -> int:
    depth, above = 0, node.parent
    while above is not None:
        depth, above = depth + 1, above.parent
    return depth
