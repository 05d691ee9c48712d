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
    """The page; it says what could not be judged, and how to have it judged."""
    verdict = _verdict(result)
    rows: list[Row] = [
        ("engine", Parts([result.engine, f"by the rules of {result.rules_version}"])),
        ("serves", Parts(list(_resolved(result.resolved)) or ["unknown without the checkpoint"])),
        ("findings", findings_block(result.findings)),
    ]
    if "model" in result.not_judged:
        rows.append(("model", "not found; add --checkpoint CHECKPOINT to check lengths and memory"))
    if "memory" in result.not_judged:
        rows.append(("memory", "not judged; add --memory SIZE to see whether it fits"))
    return Group(verdict, labelled(rows), *_corrected(result))


def _verdict(result: CheckResult) -> Text:
    if result.ok is None:
        return Text(f"NOT JUDGED: {' and '.join(result.not_judged)}", style="bold yellow")
    return Text("OK", style="bold green") if result.ok else Text("WRONG", style="bold red")


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
        return [labelled([("corrected", "no automatic fix; see the findings")])]
    if not corrected.changed:
        return []
    return [labelled([("corrected", "")]), Verbatim(fold(corrected.command, width=_COMMAND_WIDTH))]
