"""What is in the checkpoint: findings, layers, modules, tensors, facts with their sources."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widgets import Input, Static
from textual.worker import get_current_worker

from ropewalk.findings import Finding, by_severity
from ropewalk.inspector.records import Fact, Inspection
from ropewalk.inspector.tensors import Tensor
from ropewalk.report.inspection import grouped_facts
from ropewalk.tui.export import tensors_csv
from ropewalk.tui.modules import EVERYTHING, Module, module_tree
from ropewalk.tui.screens.base import RecordScreen
from ropewalk.tui.screens.modal import Modal
from ropewalk.tui.state import AppState, Opened
from ropewalk.tui.tensor_rows import COLUMNS, Column, TensorRows
from ropewalk.tui.text import clean, finding_line, finding_page, shown
from ropewalk.tui.widgets.block_bars import BlockBars
from ropewalk.tui.widgets.layer_strip import LayerStrip
from ropewalk.tui.widgets.module_tree import ModuleTree
from ropewalk.tui.widgets.panel import Panel, ScrollPanel
from ropewalk.tui.widgets.record_list import RecordList
from ropewalk.tui.widgets.tensor_list import TensorList
from ropewalk.units import format_bytes

_UNKNOWN = "unknown"  # stands for all facts without a value
_BY_SIZE: frozenset[Column] = frozenset({"elements", "bytes"})  # the largest first


@dataclass(frozen=True, slots=True)
class _Listing:
    """What the table lists: the tensors of a module, filtered and sorted."""

    module: Module
    text: str = ""
    column: Column = "stored"
    backwards: bool = False


class CheckpointScreen(RecordScreen):
    """Left the modules, in the middle their tensors, right the facts; findings above all."""

    PLACE = "checkpoint"
    CSS_PATH = "checkpoint.tcss"
    AUTO_FOCUS = "#tensors"
    HELP = (
        "Modules on the left, repeated blocks folded into one; the table lists the tensors of the module "
        "under the cursor. The filter looks for every word in names and dtypes. A finding leads to the "
        "tensor or fact that it is about."
    )
    TIPS: ClassVar[dict[str, str]] = {
        "findings": (
            "Where config and tensors disagree, or something is unusual; the tensors count. Enter leads "
            "to the place."
        ),
        "layers": (
            "What each layer keeps, in order: read from the config's list of layers or from the tensors."
        ),
        "modules": (
            "Parameters counted from the shapes in the headers; packed words are unpacked in the total only."
        ),
        "tensors": (
            "As stored in the headers: bytes are exact. A tensor under the cursor opens with its file "
            "and offset."
        ),
        "facts-panel": (
            "Each value with its source: tensor, config, gguf, the class's default, derived from "
            "others, or assumed."
        ),
        "block-panel": "The most frequent block and how its parameters divide: exact, from the shapes.",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter", key_display="/"),
        Binding("s", "sort", "sort"),
        Binding("r", "reverse", "reverse", show=False),
        Binding("f", "side", "facts"),
        Binding("w", "what_if", "heads"),
        Binding("c", "copy", "copy"),
        Binding("e", "export", "export"),
        Binding("escape", "clear", "all tensors", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._shown: Opened | None = None
        self._rows: TensorRows | None = None
        self._listing: _Listing | None = None
        self._wanted: int | None = None
        self._unfolded = False

    def compose_body(self) -> ComposeResult:
        """Findings, layers, and three columns."""
        yield Static(id="reading")
        yield RecordList(id="findings")
        yield LayerStrip(id="layers")
        with Horizontal(id="body"):
            yield Panel("Modules", ModuleTree(id="modules"), id="left")
            field = Input(placeholder="filter: words of a name, a dtype", id="filter", compact=True)
            yield Panel("Tensors", TensorList(id="tensors"), field, id="middle")
            with Vertical(id="side"):
                yield Panel(
                    "Facts",
                    RecordList(id="facts", start_on_first=True),
                    Static(id="source"),
                    id="facts-panel",
                )
                yield ScrollPanel("Block", BlockBars(id="block"), id="block-panel")

    def show(self, desk: AppState) -> None:
        """Draw what is open, or that it is being read."""
        reading = self.ropewalk.reading
        words = Content(f"reading {clean(reading)} …  esc cancels" if reading else "")
        self.query_one("#reading", Static).update(words)
        self.set_class(desk.opened is None, "-empty")
        if desk.opened is None or desk.opened is self._shown:
            return
        self._shown = desk.opened
        self._listing = None
        inspection = desk.opened.inspection
        self.query_one(LayerStrip).show(inspection.layers)
        self.query_one(BlockBars).show(inspection.block)
        self._show_findings(inspection)
        self._show_facts(inspection)
        self._sort_out(desk.opened)

    def _show_findings(self, inspection: Inspection) -> None:
        findings = self.query_one("#findings", RecordList)
        findings.display = bool(inspection.findings)
        findings.show((finding, finding_line(finding)) for finding in by_severity(inspection.findings))

    def _show_facts(self, inspection: Inspection) -> None:
        self.query_one("#facts", RecordList).show(self._fact_lines(inspection))

    def _fact_lines(self, inspection: Inspection) -> Iterator[tuple[str | None, Content]]:
        """Groups with their heads; of what is not known only the number, until enter unfolds it."""
        for head, members in grouped_facts(inspection.facts):
            unknown = members[0][1].value is None
            if unknown and not self._unfolded:
                yield _UNKNOWN, Content.styled(f"▸ {len(members)} {head}", "$grey")
                continue
            yield (
                (_UNKNOWN if unknown else None),
                Content.styled(f"▾ {head}" if unknown else head, "$primary"),
            )
            for name, fact in members:
                yield name, _fact_line(name, fact, has_room=self.has_class("-huge"))

    @work(thread=True, exclusive=True, group="modules")
    def _sort_out(self, opened: Opened) -> None:
        """The table first, then names into modules: for 92,000 that takes some tenths of a second."""
        worker = get_current_worker()
        rows = TensorRows(opened.checkpoint.tensors)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show_tensors, rows)
        root = module_tree(opened.checkpoint.tensors)
        if not worker.is_cancelled:
            self.app.call_from_thread(self.query_one(ModuleTree).show, root)

    def _show_tensors(self, rows: TensorRows) -> None:
        self._rows = rows
        self._relist(_Listing(EVERYTHING))

    def _relist(self, listing: _Listing) -> None:
        """List this instead; what was being looked for before is no longer wanted."""
        self._listing = listing
        if self._rows is not None:
            self._find(self._rows, listing)

    @work(thread=True, exclusive=True, group="list")
    def _find(self, rows: TensorRows, listing: _Listing) -> None:
        worker = get_current_worker()
        found = rows.matching(listing.module.rows(rows.table), listing.text)
        found = rows.ordered(found, listing.column, backwards=listing.backwards)
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show_found, rows, listing, found)

    def _show_found(self, rows: TensorRows, listing: _Listing, found: Sequence[int]) -> None:
        if listing is not self._listing or self._shown is None:
            return
        self.query_one(TensorList).show(
            rows.table,
            found,
            front=f"{listing.module.path}." if listing.module.path else "",
            by=(listing.column, listing.backwards),
            elements=_is_packed(self._shown.inspection),
        )
        self._title(listing, found=len(found), total=len(rows.table))
        if self._wanted is not None:
            self.query_one(TensorList).go_to(self._wanted)
            self._wanted = None

    def _title(self, listing: _Listing, *, found: int, total: int) -> None:
        middle, module = self.query_one("#middle"), listing.module
        alike = f" ({module.alike} alike)" if module.alike > 1 else ""
        middle.border_title = Content(f"Tensors of {clean(module.path)}{alike}" if module.path else "Tensors")
        by = "" if listing.column == "stored" else f" by {listing.column}"
        middle.border_subtitle = f"{found:,} of {total:,}{by}"

    @on(ModuleTree.Highlighted)
    def _module_highlighted(self, event: ModuleTree.Highlighted) -> None:
        listing = self._listing
        if listing is not None and listing.module is not event.module:
            self._relist(_Listing(event.module, listing.text, listing.column, listing.backwards))

    @on(Input.Changed, "#filter")
    def _filter_changed(self, event: Input.Changed) -> None:
        listing = self._listing
        if listing is not None and listing.text != event.value:
            self._relist(_Listing(listing.module, event.value, listing.column, listing.backwards))

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self.set_focus(self.query_one(TensorList))

    @on(TensorList.HeadingChosen)
    def _heading_chosen(self, event: TensorList.HeadingChosen) -> None:
        if self._listing is not None:
            again = self._listing.column == event.column
            backwards = not self._listing.backwards if again else event.column in _BY_SIZE
            self._relist(_Listing(self._listing.module, self._listing.text, event.column, backwards))

    @on(TensorList.Chosen)
    def _tensor_chosen(self, event: TensorList.Chosen) -> None:
        self.app.push_screen(Modal("Tensor", tensor_page(event.tensor), text=event.tensor.name))

    @on(RecordList.Highlighted, "#facts")
    def _fact_highlighted(self, event: RecordList.Highlighted) -> None:
        if self._shown is not None and event.record != _UNKNOWN:
            fact = self._shown.inspection.facts[event.record]
            self.query_one("#source", Static).update(
                Content(f"{fact.source}: {clean(fact.detail or '')}".rstrip(": "))
            )

    @on(RecordList.Chosen, "#facts")
    def _fact_chosen(self, event: RecordList.Chosen) -> None:
        if self._shown is not None and event.record == _UNKNOWN:
            self._unfolded = not self._unfolded
            self._show_facts(self._shown.inspection)
        elif self._shown is not None:
            fact = self._shown.inspection.facts[event.record]
            self.app.push_screen(Modal(event.record, fact_page(event.record, fact), text=shown(fact.value)))

    @on(RecordList.Chosen, "#findings")
    def _finding_chosen(self, event: RecordList.Chosen) -> None:
        """Lead to what it is about, and tell all that it names."""
        finding: Finding = event.record
        self._lead_to(finding)
        self.app.push_screen(Modal(finding.code, finding_page(finding), text=finding.message))

    def _lead_to(self, finding: Finding) -> None:
        where, listing, rows = finding.where, self._listing, self._rows
        field, tensor = where.get("field"), where.get("tensor")
        if self._shown is not None and field in self._shown.inspection.facts:
            self.query_one("#facts", RecordList).go_to(field)
        if not isinstance(tensor, str) or listing is None or rows is None or tensor not in rows.table.names:
            return
        tree = self.query_one(ModuleTree)
        tree.move_cursor(tree.root)
        self.query_one("#filter", Input).value = ""
        self._wanted = rows.table.names.index(tensor)
        self._relist(_Listing(EVERYTHING))

    def action_filter(self) -> None:
        self.set_focus(self.query_one("#filter", Input))

    def action_clear(self) -> None:
        """Leave the filter; again empties it. While a checkpoint is read, leave that."""
        if self.ropewalk.reading is not None:
            self.ropewalk.cancel_reading()
            return
        field, table = self.query_one("#filter", Input), self.query_one(TensorList)
        if table.has_focus:
            field.value = ""
        self.set_focus(table)

    def action_sort(self) -> None:
        if self._listing is not None:
            column = COLUMNS[(COLUMNS.index(self._listing.column) + 1) % len(COLUMNS)]
            listing = _Listing(self._listing.module, self._listing.text, column, column in _BY_SIZE)
            self._relist(listing)

    def action_reverse(self) -> None:
        if self._listing is not None:
            now = self._listing
            self._relist(_Listing(now.module, now.text, now.column, not now.backwards))

    def action_side(self) -> None:
        """Facts instead of tensors where there is no room for both; the focus goes there."""
        beside = self.toggle_class("-side").has_class("-side")
        self.set_focus(self.query_one("#facts" if beside else "#tensors"))

    def action_what_if(self) -> None:
        """Another number of KV heads."""
        from ropewalk.tui.screens.what_if import WhatIfSheet

        if self.desk.opened is not None and self.desk.request is not None:
            self.app.push_screen(
                WhatIfSheet(self.desk.opened, self.desk.request, backend=self.ropewalk.backend)
            )

    def action_copy(self) -> None:
        """The name of the tensor, the fact or the finding under the cursor."""
        if isinstance(self.focused, RecordList):
            record = self.focused.record()
            text = record.message if isinstance(record, Finding) else record
        else:
            tensor = self.query_one(TensorList).chosen()
            text = tensor.name if tensor else None
        if text:
            self.ropewalk.copy(text, text)

    def action_export(self) -> None:
        """Write what is listed as comma-separated values into the current folder."""
        if self._rows is None or self._shown is None:
            return
        rows = self.query_one(TensorList).rows
        self.ropewalk.export(f"{self._shown.name}-tensors.csv", tensors_csv(self._rows.table, rows))


def _fact_line(name: str, fact: Fact, *, has_room: bool) -> Content:
    """Name and value; its source where it is not cut off (the line below the list says it of one)."""
    source = f"  {fact.source}" if has_room else ""
    return Content.assemble((f"{name:<20} ", "$grey"), (clean(shown(fact.value)), "bold"), (source, "dim"))


def fact_page(name: str, fact: Fact) -> Content:
    """A fact with its value, source and where it was read."""
    rows = (("value", shown(fact.value)), ("source", fact.source), ("read from", fact.detail or "–"))
    return Content("\n").join(
        Content.assemble((f"{label:10}", "$primary"), clean(text)) for label, text in rows
    )


def tensor_page(tensor: Tensor) -> Content:
    """A tensor with its name, dtype, shape, offset and bytes."""
    rows = (
        ("name", tensor.name),
        ("dtype", tensor.dtype),
        ("shape", " x ".join(map(str, tensor.shape)) or "scalar"),
        ("elements", f"{tensor.elements:,}"),
        ("bytes", f"{tensor.nbytes:,} ({format_bytes(tensor.nbytes)})"),
        ("file", tensor.file),
        ("offset", f"{tensor.offset:,} in the data section"),
    )
    return Content("\n").join(
        Content.assemble((f"{label:10}", "$primary"), clean(text)) for label, text in rows
    )


def _is_packed(inspection: Inspection) -> bool:
    """Whether stored words hold several parameters each, so that elements are no parameters."""
    summary = inspection.checkpoint
    return summary.format != "gguf" and inspection.value("quantization") is not None


SCREEN = CheckpointScreen
