"""The page of ``ropewalk doctor``: what can be served here, and what is missing for the rest."""

from __future__ import annotations

from collections.abc import Iterator

from ropewalk.doctor import Doctor
from ropewalk.report.page import Block, Page, fields, mark, parts, soft, stack, table, words
from ropewalk.units import format_gib


def doctor_page(doctor: Doctor) -> Page:
    """Whether anything can be served, then what was found and what was not."""
    title = words(("READY", "good") if doctor.engines else ("NO ENGINE", "bad"))
    devices = (
        (device.id, _size(device.memory_bytes), f"{_size(device.free_bytes)} free", device.name)
        for device in doctor.devices
    )
    rows: list[tuple[str, Block]] = [
        ("engines", stack(*_engines(doctor))),
        ("devices", table("|>|>|*", devices)),
        ("runs", str(doctor.store)),
        ("logs", str(doctor.logs)),
        ("versions", parts(each=(f"{name} {version}" for name, version in doctor.versions.items()))),
    ]
    return Page((fields(rows),), title=title)


def _engines(doctor: Doctor) -> Iterator[Block]:
    rows = []
    for build in doctor.engines:
        name = build.engine if build.name == build.engine else f"{build.engine} ({build.name})"
        rows.append((mark(True), name, build.version or "version unknown", soft(build.path)))
    if rows:
        yield table("| | |*", rows)
    for message in doctor.missing.values():
        yield words(("✗ ", "bad"), message)
    if doctor.planned_only:
        yield soft(f"  planned for, not served: {', '.join(doctor.planned_only)}")


def _size(count: int | None) -> str:
    return "unknown" if count is None else format_gib(count)
