"""Words and marks that several screens write alike."""

from __future__ import annotations

from textual.content import Content

from ropewalk.findings import Finding, Severity
from ropewalk.jsonio import dumps
from ropewalk.units import format_count

MARKS: dict[Severity, tuple[str, str]] = {
    "error": ("✗", "bold $error"),
    "warning": ("!", "bold $warning"),
    "info": ("i", "$primary"),
}
# Also what turns the direction of the text that follows, which no name of a tensor needs.
_CONTROL = dict.fromkeys(
    (*range(32), *range(127, 160), 0x61C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A)), "·"
)


def clean(text: str) -> str:
    """One line for a terminal: what would control it is a dot. Files are written by strangers."""
    return text.translate(_CONTROL)


def clean_lines(text: str) -> str:
    """The same for several lines."""
    return "\n".join(map(clean, text.split("\n")))


def short_count(count: int) -> str:
    """Three digits for narrow columns: ``622 M``, ``6.95 B``."""
    number, _, unit = format_count(count).partition(" ")
    return f"{float(number):.3g} {unit}" if unit and len(number) > 4 else f"{number} {unit}".rstrip()


def finding_line(finding: Finding) -> Content:
    """``✗ code  message``."""
    mark, style = MARKS[finding.severity]
    return Content.assemble((mark, style), " ", (finding.code, "bold"), f"  {clean(finding.message)}")


def finding_page(finding: Finding) -> Content:
    """A finding with all that it names."""
    lines = [finding_line(finding), Content("")]
    for name, value in finding.where.items():
        lines.append(Content.assemble((f"{name}  ", "$primary"), clean(shown(value))))
    return Content("\n").join(lines)


def shown(value: object) -> str:
    """A value as people write it: thousands apart, yes and no, a dash for unknown."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else dumps(value, indent=None)
