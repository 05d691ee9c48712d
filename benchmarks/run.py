"""All benchmarks, one after the other: figures and ratios side by side, to be read on a quiet machine.

``python benchmarks/run.py`` runs them all, ``python benchmarks/run.py headers startup`` only those.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path != Path(__file__))


def main(chosen: list[str]) -> int:
    """Run each in a process of its own; returns the number that failed."""
    unknown = sorted(set(chosen) - set(NAMES))
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    failed = 0
    for name in chosen or NAMES:
        print(f"\n== {name}", flush=True)
        failed += subprocess.run([sys.executable, FOLDER / f"{name}.py"]).returncode != 0
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
