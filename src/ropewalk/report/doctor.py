"""The page of ``ropewalk doctor``: what can be served here, and what is missing for the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from ropewalk.doctor import Doctor
from ropewalk.report.layout import Parts, columns, labelled
from ropewalk.serving.host.devices import Device
from ropewalk.units import format_gib

Row = tuple[str, RenderableType]


def doctor_page(doctor: Doctor) -> RenderableType:
    """Whether anything can be served, then what was found and what was not."""
    word, style = ("READY", "bold green") if doctor.engines else ("NO ENGINE", "bold red")
    rows: list[Row] = [
        ("engines", Group(*_engines(doctor))),
        ("devices", _devices(doctor.devices)),
        ("runs", str(doctor.store)),
        ("versions", Parts([f"{name} {version}" for name, version in doctor.versions.items()])),
    ]
    return Group(Text(word, style=style), labelled(rows))


def _engines(doctor: Doctor) -> Iterator[RenderableType]:
    if doctor.engines:
        table = columns("left", "left", "left", "left")
        for build in doctor.engines:
            name = build.engine if build.name == build.engine else f"{build.engine} ({build.name})"
            version = build.version or "version unknown"
            table.add_row(Text("✓", style="green"), name, version, Text(build.path, style="dim"))
        yield table
    for message in doctor.missing.values():
        yield Text.assemble(("✗ ", "red"), message)


def _devices(devices: Sequence[Device]) -> RenderableType:
    table = columns("left", "right", "right", "left")
    for device in devices:
        table.add_row(device.id, _size(device.memory_bytes), f"{_size(device.free_bytes)} free", device.name)
    return table


def _size(count: int | None) -> str:
    return "unknown" if count is None else format_gib(count)
