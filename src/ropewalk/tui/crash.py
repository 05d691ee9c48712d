"""A bug that ended the application, for a file: what to say of it stays one line."""

from __future__ import annotations

import os
import time
import traceback
from pathlib import Path


def write_crash(error: Exception, folder: Path) -> Path:
    """Write where it happened, without the values of variables, into a file of its own. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"tui-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8", errors="replace")
    return path
