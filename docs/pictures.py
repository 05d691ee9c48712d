"""Take the pictures of the application for the README and docs/tui.md, from the application itself.

python docs/pictures.py CHECKPOINT RUN [CONTEXT]

CHECKPOINT is opened and planned for CONTEXT tokens (default 12288); RUN is a stored measurement of it. Look
at each picture before you commit it.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import tempfile
from pathlib import Path

from textual.pilot import Pilot

from ropewalk.tui.app import RopewalkApp
from ropewalk.tui.work import Backend

IMAGES = Path(__file__).with_name("images")
SIZE = (120, 45)
_CLIPPING = re.compile(r'<clipPath.*?</clipPath>\s*|\ clip-path="[^"]*"', re.DOTALL)  # of lines that fit
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)  # from the network; the reader's own are used


async def settle(pilot: Pilot[None]) -> None:
    """Wait until everything that was asked for is drawn."""
    while not all(worker.is_finished for worker in pilot.app.workers):
        await pilot.pause(0.05)
    await pilot.pause()


def write(app: RopewalkApp, name: str) -> None:
    """The screen as SVG."""
    drawn = app.export_screenshot(title="ropewalk tui", simplify=True)
    (IMAGES / f"{name}.svg").write_text(_CLIPPING.sub("", _FONTS.sub("", drawn)), encoding="utf-8")


async def take(checkpoint: str, run_id: str, context_len: int, state: Path) -> None:
    """The checkpoint, its plan, and the grid of the run with the last cell of its target open."""
    app = RopewalkApp(checkpoint, backend=Backend(state=state))
    async with app.run_test(size=SIZE) as pilot:
        await settle(pilot)
        await pilot.press("down")
        write(app, "tui-checkpoint")
        await pilot.press("3")
        app.ask(context_len=context_len)
        await settle(pilot)
        write(app, "tui-plan")
        app.show_run(run_id)
        await settle(pilot)
        await pilot.press("right", "right", "down")
        await settle(pilot)
        write(app, "tui-measure")


def main(checkpoint: str, run_id: str, context_len: str = "12288") -> None:
    """Open the checkpoint by its bare name, so that no folder of this machine is in a picture."""
    path = Path(checkpoint).resolve()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / path.name).symlink_to(path)
        os.chdir(folder)
        asyncio.run(take(path.name, run_id, int(context_len), Path(folder)))


if __name__ == "__main__":
    main(*sys.argv[1:])
