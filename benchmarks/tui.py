"""How fast the application answers: from the start of the command, and for every key, in a real terminal.

    python benchmarks/tui.py [KEYS]

DeepSeek-V3's shape (91,991 tensors) is opened on a pseudo-terminal of 120 x 40. Time to the first paint
runs from the start of the process to the first screenful, time to the table until all tensors are listed;
a key's time runs from writing it to the first output after it, for KEYS (default 60) keys of each kind.
Of STARTS starts the fastest counts. Memory is the largest resident set. Other work on the machine adds to
all of it; CPU seconds are told beside.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time
from collections.abc import Iterable
from pathlib import Path

from headers import apart, write_sharded  # type: ignore[import-not-found]  # beside this file

ROWS, COLUMNS = 40, 120
NUM_TENSORS = b"91,991"
QUIET_SECONDS = 0.15
PATIENCE_SECONDS = 60.0
STARTS = 5
TARGETS = {"first paint": "1 s", "key": "50 ms", "memory": "150 MiB"}


class Terminal:
    """A command on a pseudo-terminal: what it writes, and when."""

    def __init__(self, argv: list[str], *, home: Path) -> None:
        self.began = time.perf_counter()
        self.pid, self.descriptor = pty.fork()
        if self.pid == 0:
            os.execve(argv[0], argv, environment(home))
        fcntl.ioctl(self.descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def wait_for(self, text: bytes) -> float:
        """Seconds since the start until this was written."""
        seen = b""
        deadline = time.perf_counter() + PATIENCE_SECONDS
        while text not in seen:
            if time.perf_counter() > deadline or not self._ready(1.0):
                continue
            seen = seen[-200_000:] + os.read(self.descriptor, 65_536)
        return time.perf_counter() - self.began

    def settle(self) -> None:
        """Read until nothing comes any more."""
        while self._ready(QUIET_SECONDS):
            os.read(self.descriptor, 65_536)

    def press(self, keys: bytes) -> float:
        """Seconds from writing a key to the first output after it."""
        began = time.perf_counter()
        os.write(self.descriptor, keys)
        self._ready(PATIENCE_SECONDS)
        seconds = time.perf_counter() - began
        self.settle()
        return seconds

    def peak_bytes(self) -> int:
        """The largest resident set so far (Linux)."""
        status = Path(f"/proc/{self.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024

    def cpu_seconds(self) -> float:
        """CPU time so far (Linux)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """End the command."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.descriptor)

    def _ready(self, seconds: float) -> bool:
        return bool(select.select([self.descriptor], [], [], seconds)[0])


def environment(home: Path) -> dict[str, str]:
    """The user's, with state of its own and with compiled modules kept, as an installation has them."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    own = {
        "TERM": "xterm-256color",
        "XDG_STATE_HOME": str(home),
        "PYTHONPYCACHEPREFIX": str(home / "compiled"),
    }
    return {**kept, **own}


def percentile(seconds: Iterable[float], share: float) -> float:
    """The value that this share lies at or below."""
    ordered = sorted(seconds)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def start(folder: Path, home: Path) -> tuple[Terminal, tuple[float, float, float]]:
    """Open the checkpoint; seconds until the first paint, CPU seconds by then, seconds until the table."""
    terminal = Terminal([sys.executable, "-m", "ropewalk", "tui", str(folder)], home=home)
    first = terminal.wait_for(b"Checkpoint")
    cpu = terminal.cpu_seconds()
    return terminal, (first, cpu, terminal.wait_for(NUM_TENSORS))


def run(folder: Path, home: Path, keys: int) -> None:
    """Some starts; in the last one walk the table, filter, move the slider."""
    starts = []
    for _ in range(STARTS):
        terminal, seconds = start(folder, home)
        starts.append(seconds)
        terminal.close()
    first, cpu, listed = min(starts)
    print(f"{'first paint':24} {first:7.2f} s, {cpu:.2f} s of CPU   target {TARGETS['first paint']}")
    print(f"{'all tensors listed':24} {listed:7.2f} s")
    terminal, _ = start(folder, home)
    try:
        answer(terminal, keys)
        print(f"{'memory':24} {terminal.peak_bytes() / 2**20:7.1f} MiB target {TARGETS['memory']}")
    finally:
        terminal.close()


def answer(terminal: Terminal, keys: int) -> None:
    """Press keys of each kind."""
    terminal.settle()
    kinds = {
        "a row down": [b"\x1b[B"] * keys,
        "a page down": [b"\x1b[6~"] * keys,
        "to the end and back": [b"G", b"g"] * (keys // 2),
    }
    for name, pressed in kinds.items():
        report(name, [terminal.press(key) for key in pressed])
    terminal.press(b"/")
    report("filter, letter by letter", [terminal.press(key) for key in letters(keys)])
    terminal.press(b"\x1b")
    terminal.press(b"3")
    terminal.settle()
    there_and_back = ([b"\x1b[C"] * 8 + [b"\x1b[D"] * 8) * (keys // 16 + 1)
    report("slider with a new plan", [terminal.press(key) for key in there_and_back[:keys]])


def letters(count: int) -> list[bytes]:
    """Words typed and taken back again, letter by letter."""
    word = "experts gate proj 17 weight scale"
    strokes = [letter.encode() for letter in word] + [b"\x7f"] * len(word)
    return (strokes * (count // len(strokes) + 1))[:count]


def report(name: str, seconds: list[float]) -> None:
    """One line: median and 95th percentile."""
    middle, high = statistics.median(seconds) * 1000, percentile(seconds, 0.95) * 1000
    print(f"{name:24} {middle:7.1f} ms  95th {high:6.1f} ms  target {TARGETS['key']}")


def main(keys: int = 60) -> None:
    """Print one line per figure."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "deepseek-v3"
        apart(lambda: write_sharded(folder, num_shards=163))
        start(folder, Path(name))[0].close()  # compiles
        run(folder, Path(name), keys)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
