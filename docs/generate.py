"""Write the generated pages of the documentation, or say which of them are stale.

python docs/generate.py            write them
python docs/generate.py --check    exit with 1 if one differs from what would be written
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

ROOT = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)  # instead of this folder

from docs.cli import cli_page  # noqa: E402
from docs.codes import findings_page  # noqa: E402
from docs.engines import engines_page  # noqa: E402
from docs.exactness import exactness_page  # noqa: E402
from docs.families import families_page  # noqa: E402
from docs.manpage import man_page  # noqa: E402
from docs.messages import message_page, messages  # noqa: E402
from docs.service import http_page  # noqa: E402

PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "engines.md": engines_page,
    **{f"errors/{name}.md": partial(message_page, name) for name in messages()},
    "exactness.md": exactness_page,
    "families.md": families_page,
    "findings.md": findings_page,
    "http.md": http_page,
    "man/ropewalk.1": man_page,
}
_NOTE = "Written by docs/generate.py (make docs); edit that."


def rendered(name: str) -> str:
    """The text of a page, with a note where it comes from."""
    text = re.sub(r"\n{3,}", "\n\n", PAGES[name]().strip())
    note = f"<!-- {_NOTE} -->\n" if name.endswith(".md") else f'.\\" {_NOTE}'
    return f"{note}\n{text}\n"


def main(arguments: list[str]) -> int:
    """The exit status: with ``--check`` 1 where a committed page is stale."""
    stale = []
    for name in PAGES:
        path, text = Path(__file__).parent / name, rendered(name)
        if path.exists() and path.read_text("utf-8") == text:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(text, "utf-8")
    if stale:
        did = "are stale: run python docs/generate.py" if "--check" in arguments else "written"
        print(", ".join(stale), did)  # noqa: T201
    return int(bool(stale) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
