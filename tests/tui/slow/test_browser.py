"""The same application in a headless browser: it paints, takes keys, and refuses pages of other sites."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import aiohttp.web
import pytest
from aiohttp.test_utils import TestServer

from ropewalk.serving.process.ports import free_port
from ropewalk.tui.themes import DARK

pytestmark = pytest.mark.slow
PATIENCE_SECONDS = 120.0


@pytest.fixture
def page(tmp_path: Path, smollm2: Path) -> Iterator[str]:
    """The address of the application, served for SmolLM2."""
    port = free_port("127.0.0.1")
    command = [sys.executable, "-m", "ropewalk", "web", str(smollm2), "--port", str(port)]
    with (
        (tmp_path / "web.log").open("wb") as log,
        subprocess.Popen(command, stdout=log, stderr=log) as server,
    ):
        address = f"http://127.0.0.1:{port}/?token="
        while not (said := re.search(re.escape(address) + r"\S+", (tmp_path / "web.log").read_text())):
            assert server.poll() is None
            time.sleep(0.1)
        yield said[0]
        server.terminate()


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[int]:
    """The port at which a headless Chromium is steered."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium is installed")
    port = free_port("127.0.0.1")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command = [program, *options, f"--remote-debugging-port={port}", "about:blank"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        yield port
        process.terminate()


class Tab:
    """A tab of the browser over its DevTools protocol; ``seen`` is all that the application painted."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.seen = ""
        self.asked: list[str] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method and wait for its answer; what is painted meanwhile is kept."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = await self._next()
            if message.get("id") == self._number:
                return dict(message.get("result", {}))

    async def wait_for(self, text: str) -> None:
        """Wait until the application has painted this."""
        while text not in self.seen:
            await self._next()

    async def press(self, key: str) -> None:
        """Type a character."""
        self.seen = ""
        for kind in ("keyDown", "keyUp"):
            code = {"text": key} if kind == "keyDown" else {}
            await self.call("Input.dispatchKeyEvent", type=kind, key=key, **code)

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression in the page."""
        return (await self.call("Runtime.evaluate", expression=expression))["result"]["value"]

    async def leave(self, url: str) -> None:
        """Go elsewhere; the page asks before it lets its session end."""
        self.asks = False
        await self.call("Page.enable")
        await self._socket.send_json({"id": 0, "method": "Page.navigate", "params": {"url": url}})
        while not self.asks:
            await self._next()
        await self.call("Page.handleJavaScriptDialog", accept=True)
        while (await self._next()).get("method") != "Page.loadEventFired":
            pass

    async def _next(self) -> dict[str, Any]:
        message: dict[str, Any] = await self._socket.receive_json()
        if message.get("method") == "Network.requestWillBeSent":
            self.asked.append(message["params"]["request"]["url"])
        if message.get("method") == "Page.javascriptDialogOpening":
            self.asks = message["params"]["type"] == "beforeunload"
        if message.get("method") == "Network.webSocketFrameReceived":
            payload = message["params"]["response"]["payloadData"]
            painted = base64.b64decode(payload) if not payload.startswith("[") else payload.encode()
            self.seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", painted.decode(errors="replace"))
        return message


ATTACK = """<script>
const said = {};
const tell = (who, how) => { said[who] ??= how; };
const attack = (who) => {
  const socket = new WebSocket(SOCKET);
  socket.onmessage = () => tell(who, "answered");
  socket.onerror = () => tell(who, "refused");
};
addEventListener("message", event => tell("sandbox", event.data));
attack("page");
</script>
<iframe sandbox="allow-scripts" srcdoc="<script>
  const socket = new WebSocket(SOCKET);
  socket.onmessage = () => parent.postMessage('answered', '*');
  socket.onerror = () => parent.postMessage('refused', '*');
</script>"></iframe>
"""


_SAID = "typeof said === 'object' ? Object.entries(said).sort().join() : ''"


@asynccontextmanager
async def elsewhere(page: str) -> AsyncIterator[str]:
    """A page of another origin that knows the token, and tries what it may."""
    socket = page.replace("http:", "ws:").replace("/?token=", "/ws/")
    text = ATTACK.replace("SOCKET", f"'{socket}'")

    async def answer(request: aiohttp.web.Request) -> aiohttp.web.Response:
        return aiohttp.web.Response(text=text, content_type="text/html")

    site = aiohttp.web.Application()
    site.router.add_get("/", answer)
    async with TestServer(site) as server:
        yield str(server.make_url("/"))


async def ready(client: aiohttp.ClientSession, url: str) -> Any:
    """What a server answers once it does."""
    while True:
        try:
            async with client.get(url) as answer:
                return await answer.read()
        except aiohttp.ClientError:
            await asyncio.sleep(0.2)


async def use(page: str, port: int) -> None:
    """Open the page, go to the plan, look."""
    async with aiohttp.ClientSession() as client:
        await ready(client, page)
        tabs = json.loads(await ready(client, f"http://127.0.0.1:{port}/json"))
        address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
        async with client.ws_connect(address, max_msg_size=0) as socket:
            tab = Tab(socket)
            await tab.call("Network.enable")
            await tab.call("Emulation.setFocusEmulationEnabled", enabled=True)
            await tab.call("Page.navigate", url=page)
            await tab.wait_for("272 of 272")
            await tab.press("3")  # without a click before
            await tab.wait_for("✓ FITS  8,192 tokens x 1 sequence")
            corner = {"x": 2, "y": 2, "width": 1, "height": 1, "scale": 1}
            shot = await tab.call("Page.captureScreenshot", clip=corner)
            assert first_pixel(base64.b64decode(shot["data"])) == DARK.panel  # the head of the screen
            assert tab.asked  # all that the page loaded
            assert {urlsplit(url).netloc for url in tab.asked if not url.startswith("data:")} == {
                urlsplit(page).netloc
            }
            async with elsewhere(page) as attack:
                await tab.leave(attack)
                while (said := await tab.evaluate(_SAID)).count(",") < 3:
                    print("SAID", said, flush=True)
                    await asyncio.sleep(1)
            assert said == "page,refused,sandbox,refused"


def first_pixel(png: bytes) -> str:
    """The colour of the first pixel as ``#rrggbb``; of a picture one pixel wide nothing else is filtered."""
    at = png.index(b"IDAT")
    length = int.from_bytes(png[at - 4 : at], "big")
    return f"#{zlib.decompressobj().decompress(png[at + 4 : at + 4 + length])[1:4].hex()}"


def test_the_application_in_a_browser(page: str, browser: int) -> None:
    asyncio.run(asyncio.wait_for(use(page, browser), PATIENCE_SECONDS))
