"""The top of every screen: what is open and how far it reaches, and the way to the other screens."""

from __future__ import annotations

from collections.abc import Iterator

from textual.app import ComposeResult
from textual.containers import Container
from textual.content import Content
from textual.widgets import Static

from ropewalk.inspector.records import Inspection
from ropewalk.tui.state import AppState
from ropewalk.tui.themes import stylesheet
from ropewalk.units import format_bytes, format_count, format_tokens

# Key, mode, name: in the order in which they are worked through.
PLACES = (
    ("o", "open", "Open"),
    ("1", "checkpoint", "Checkpoint"),
    ("2", "rope", "Rope"),
    ("3", "plan", "Plan"),
    ("4", "serve", "Serve"),
    ("5", "measure", "Measure"),
    ("6", "runs", "Runs"),
)


class Masthead(Container):
    """One line where the terminal is wide, two where it is not."""

    DEFAULT_CSS = stylesheet(__file__)

    def __init__(self, here: str) -> None:
        super().__init__()
        self._here = here

    def compose(self) -> ComposeResult:
        """What is open, and the tabs."""
        yield Static(id="what")
        yield Static(tabs(self._here), id="tabs")

    def show(self, desk: AppState) -> None:
        self.query_one("#what", Static).update(title(desk))


def title(desk: AppState) -> Content:
    """``Qwen3-8B  8.19 B  BF16 15.26 GiB  reaches 32,768 / 131,072  vllm``."""
    if desk.opened is None:
        return Content.assemble(("ropewalk", "bold $primary"), "  nothing is open")
    words = [*_facts(desk.opened.inspection), *([desk.request.engine] if desk.request else [])]
    return Content.assemble(
        ("ropewalk", "bold $primary"),
        "  ",
        (desk.opened.name, "bold"),
        ("  " + " · ".join(words), "$grey"),
    )


def tabs(here: str) -> Content:
    """Each screen with its key; the one that is shown stands out."""
    parts = []
    for key, mode, name in PLACES:
        if mode == here:
            parts.append(Content.styled(f" {key} {name} ", "bold $background on $primary"))
        else:
            label = Content.assemble((f" {key} ", "bold $primary"), (f"{name} ", "$grey"))
            parts.append(label.stylize(f"@click=app.go('{mode}')"))
    return Content("").join(parts)


def _facts(inspection: Inspection) -> Iterator[str]:
    summary = inspection.checkpoint
    if summary.parameters:
        yield format_count(summary.parameters)
    if summary.dtypes:
        largest = max(summary.dtypes.items(), key=lambda item: item[1].bytes)[0]
        yield f"{largest} {format_bytes(summary.tensor_bytes)}"
    reach = [inspection.value("native_context"), inspection.value("supported_context")]
    known = dict.fromkeys(format_tokens(value) for value in reach if isinstance(value, int))
    if known:
        yield f"reaches {' / '.join(known)}"
