"""How many plans a second the HTTP service answers on one core, and how long each takes.

    python benchmarks/service.py [SECONDS] [CLIENTS]

The service is a process on one core, its clients are this one on the others. CLIENTS (default 8) connections
ask for plans of Qwen3-32B, each time for another length, as fast as they are answered for SECONDS (default
10), and then at the target's own pace. In the middle of each round some clients leave before they are
answered; what is open afterwards is compared with before.
"""

from __future__ import annotations

import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx2

from ropewalk.units import GIB

# Qwen3-32B.
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 5120, "head_dim": 128,
    "num_hidden_layers": 64, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 151936,
    "intermediate_size": 25600, "max_position_embeddings": 40960, "rope_theta": 1000000,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
TARGET = 200.0  # plans a second
CORE = 0
LEAVING = 20


class Tally:
    """What all clients saw."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.errors: list[str] = []


def body(length: int) -> dict[str, object]:
    """A plan of another length each time, so that nothing can be kept."""
    request = {"context_len": 4096 + 16 * (length % 8000), "engine": "vllm", "memory_bytes": 96 * GIB}
    return {"checkpoint": "Qwen3-32B", "request": request}


def ask(url: str, tally: Tally, number: int, until: float, pause: Callable[[int, int], None]) -> None:
    """One client: asks until the time is up, on one connection."""
    with httpx2.Client(base_url=url, timeout=30) as client:
        count = 0
        while time.perf_counter() < until:
            pause(number, count)
            began = time.perf_counter()
            response = client.post("/v1/plan", json=body(number * 1000 + count))
            tally.seconds.append(time.perf_counter() - began)
            if response.status_code != 200:
                tally.errors.append(f"{response.status_code} {response.text[:80]}")
            count += 1


def leave_early(url: str) -> None:
    """Ask and go away before it is answered."""
    host, port = url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as connection:
        text = json.dumps(body(0))
        head = f"POST /v1/plan HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode())


def round_of(url: str, seconds: float, clients: int, rate: float | None) -> tuple[Tally, float]:
    """All clients at once, as fast as they can or together at ``rate``; what they saw, and for how long."""
    tally = Tally()
    began = time.perf_counter()

    def pause(number: int, count: int) -> None:
        if rate is not None:
            time.sleep(max(0.0, began + (count * clients + number) / rate - time.perf_counter()))

    threads = [
        threading.Thread(target=ask, args=(url, tally, number, began + seconds, pause))
        for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    time.sleep(seconds / 2)
    for _ in range(LEAVING):
        leave_early(url)
    for thread in threads:
        thread.join()
    return tally, time.perf_counter() - began


def open_files(pid: int) -> int | None:
    """How many files and sockets a process has open; None off Linux."""
    folder = Path(f"/proc/{pid}/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else None


def report(name: str, tally: Tally, seconds: float) -> None:
    """One line."""
    times = sorted(1000 * value for value in tally.seconds)
    rate = len(times) / seconds
    p99 = times[int(0.99 * (len(times) - 1))]
    print(
        f"{name:22} {rate:7.0f} plans/s {rate / TARGET:5.2f} of the target"
        f"   median {statistics.median(times):6.1f} ms   p99 {p99:6.1f} ms   {len(tally.errors)} errors"
    )
    for error in dict.fromkeys(tally.errors[:3]):
        print(f"    {error}")


def main(seconds: float = 10, clients: int = 8) -> None:
    """Start the service, ask, and see that nothing is left under way."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "models" / "Qwen3-32B"
        model.mkdir(parents=True)
        (model / "config.json").write_text(json.dumps(CONFIG))
        command = [
            *(sys.executable, "-m", "ropewalk", "api", "--port", "0", "--rate", "100000"),
            *("--models-dir", str(model.parent), "--store", str(Path(folder) / "runs.sqlite3")),
        ]
        service = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert service.stderr is not None
        try:
            if hasattr(os, "sched_setaffinity"):
                os.sched_setaffinity(service.pid, {CORE})
                os.sched_setaffinity(0, os.sched_getaffinity(0) - {CORE} or {CORE})
            found = re.search(r"http://\S+?:\d+", service.stderr.readline())
            assert found
            url = found[0]
            ask(url, Tally(), 0, time.perf_counter() + 1, lambda number, count: None)  # warm
            before = open_files(service.pid)
            report("as fast as it goes", *round_of(url, seconds, clients, None))
            report(f"{TARGET:.0f} a second", *round_of(url, seconds, clients, TARGET))
            time.sleep(1)  # connections that were left are noticed
            print(f"open files and sockets: {before} before, {open_files(service.pid)} afterwards")
        finally:
            service.terminate()
            service.wait()
            service.stderr.close()


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
