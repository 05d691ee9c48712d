"""What is missing from a distribution, or does not belong into it, is named."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

from upkeep.dist_check import source_faults, version_of, wheel_faults

TRACKED = {"src/ropewalk/__init__.py", "src/ropewalk/tui/app.tcss", "docs/schemas/plan.json", ".ci/run"}
ABOUT = "ropewalk-1.2.3.dist-info"
WHOLE = [
    "ropewalk/__init__.py", "ropewalk/tui/app.tcss",
    "ropewalk-1.2.3.data/data/share/ropewalk/schemas/plan.json",
    *(f"{ABOUT}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")),
]  # fmt: skip


def wheel_of(folder: Path, names: list[str]) -> Path:
    path = folder / "ropewalk-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "Metadata-Version: 2.4\nName: ropewalk\nVersion: 1.2.3\n")
    return path


def test_a_whole_wheel(tmp_path: Path) -> None:
    wheel = wheel_of(tmp_path, WHOLE)
    assert list(wheel_faults(wheel, TRACKED)) == []
    assert version_of(wheel) == "1.2.3"


def test_a_missing_style_sheet_and_a_stray_file(tmp_path: Path) -> None:
    names = [name for name in WHOLE if not name.endswith(".tcss")]
    wheel = wheel_of(tmp_path, [*names, "ropewalk/notes.txt"])
    assert list(wheel_faults(wheel, TRACKED)) == [
        f"{wheel.name} lacks ropewalk/tui/app.tcss",
        f"{wheel.name} has ropewalk/notes.txt",
    ]


def test_a_source_distribution_is_what_is_tracked(tmp_path: Path) -> None:
    source = tmp_path / "ropewalk-1.2.3.tar.gz"
    with tarfile.open(source, "w:gz") as archive:
        for name in ("PKG-INFO", "src/ropewalk/__init__.py", "docs/schemas/plan.json", "dist/old.whl"):
            archive.add(__file__, f"ropewalk-1.2.3/{name}")
    assert list(source_faults(source, TRACKED)) == [
        f"{source.name} lacks src/ropewalk/tui/app.tcss",
        f"{source.name} has dist/old.whl",
    ]
