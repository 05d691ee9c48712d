"""The page of ``ropewalk doctor``: what can be served here, and what is missing for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from ropewalk.report.layout import Parts, columns, labelled
from ropewalk.serving.devices import Device
from ropewalk.serving.records import EngineBuild
from ropewalk.units import format_gib

Row = tuple[str, RenderableType]


def doctor_page(
    *,
    engines: Sequence[EngineBuild],
    missing: Mapping[str, str],
    devices: Sequence[Device],
    store: Path,
    versions: Sequence[str],
) -> RenderableType:
    """``missing`` has the engines of which none was found, and how to get one."""
    rows: list[Row] = [
        ("engines", Group(*_engines(engines, missing))),
        ("devices", _devices(devices)),
        ("runs", str(store)),
        ("versions", Parts(versions)),
    ]
    verdict = ("READY", "bold green") if engines else ("NO ENGINE", "bold red")
    return Group(Text(verdict[0], style=verdict[1]), labelled(rows))


def _engines(engines: Sequence[EngineBuild], missing: Mapping[str, str]) -> Iterator[RenderableType]:
    if engines:
        table = columns("left", "left", "left", "left")
        for build in engines:
            name = build.engine if build.name == build.engine else f"{build.engine} ({build.name})"
            version = build.version or "version unknown"
            table.add_row(Text("✓", style="green"), name, version, Text(build.path, style="dim"))
        yield table
    for message in missing.values():
        yield Text.assemble(("✗ ", "red"), message)


def _devices(devices: Sequence[Device]) -> RenderableType:
    table = columns("left", "right", "right", "left")
    for device in devices:
        table.add_row(device.id, _size(device.memory_bytes), f"{_size(device.free_bytes)} free", device.name)
    return table


def _size(count: int | None) -> str:
    return "unknown" if count is None else format_gib(count)
