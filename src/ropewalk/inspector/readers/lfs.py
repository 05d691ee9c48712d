"""The stub that Git LFS leaves in the place of a file that was not fetched."""

from __future__ import annotations

from ropewalk.errors import CheckpointError

_FIRST_LINE = b"version https://git-lfs.github.com/spec/v1"


def refuse_lfs_pointer(start: bytes, *, file: str, file_bytes: int) -> None:
    """Raise :class:`CheckpointError` ``lfs_pointer`` where the first bytes of a file are those of a stub.

    Format: git-lfs/git-lfs, docs/spec.md, "The Pointer".
    """
    if not start.startswith(_FIRST_LINE):
        return
    size = next((line[5:] for line in start.split(b"\n") if line.startswith(b"size ")), b"")
    declared = int(size) if size.isdigit() and len(size) < 20 else None
    stands_for = "" if declared is None else f" ({declared:,} bytes)"
    raise CheckpointError(
        f"{file} is a Git LFS pointer of {file_bytes} bytes, not the file itself{stands_for}: run `git lfs "
        "pull`, or download it again with `hf download`",
        code="lfs_pointer",
        where={"file": file, "declared_size_bytes": declared, "actual_size_bytes": file_bytes},
    )
