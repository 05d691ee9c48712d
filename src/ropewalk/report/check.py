"""The page of ``ropewalk check``: a verdict on a command line, what it comes to, how it should read."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from ropewalk.checking.records import CheckResult, Resolved
from ropewalk.report.command import fold
from ropewalk.report.layout import Parts, Verbatim, findings_block, labelled
from ropewalk.units import format_bytes, format_tokens

_COMMAND_WIDTH = 96
Row = tuple[str, RenderableType]


def check_page(result: CheckResult) -> RenderableType:
    """The page; it says how to have more judged where the checkpoint was not at hand."""
    verdict = Text("OK", style="bold green") if result.ok else Text("WRONG", style="bold red")
    rows: list[Row] = [
        ("engine", Parts([result.engine, f"by the rules of {result.rules_version}"])),
        ("serves", Parts(list(_resolved(result.resolved)) or ["unknown without the checkpoint"])),
        ("findings", findings_block(result.findings)),
    ]
    if any(finding.code == "checkpoint_not_read" for finding in result.findings):
        rows.append(("model", "not at hand: --checkpoint CHECKPOINT has lengths and bytes judged too"))
    return Group(verdict, labelled(rows), *_corrected(result))


def _resolved(resolved: Resolved) -> Iterator[str]:
    if resolved.context_per_request is not None:
        yield f"{format_tokens(resolved.context_per_request)} tokens per request"
    if resolved.num_sequences is not None:
        yield f"{resolved.num_sequences} at once"
    if resolved.kv_cells is not None:
        yield f"room for {format_tokens(resolved.kv_cells)} tokens"
    if resolved.kv_bytes is not None:
        yield f"KV cache {format_bytes(resolved.kv_bytes)}"
    if resolved.derived_max_len is not None:
        yield f"the engine's own limit {format_tokens(resolved.derived_max_len)}"
    if resolved.rope:
        yield f"rope {resolved.rope.get('type')} {resolved.rope.get('factor') or ''}".rstrip()


def _corrected(result: CheckResult) -> list[RenderableType]:
    corrected = result.corrected
    if corrected is None:
        return [labelled([("corrected", "cannot be told without more knowledge")])]
    if not corrected.changed:
        return []
    return [labelled([("corrected", "")]), Verbatim(fold(corrected.command, width=_COMMAND_WIDTH))]
