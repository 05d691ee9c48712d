"""What this machine has: processor, memory within the limits of its container, NVIDIA devices."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ropewalk.serving.host.cgroups import memory_limits
from ropewalk.units import KIB, MIB, format_gib

_ROOT = Path("/")
_ASK_SECONDS = 20.0
_NVIDIA_PROCESSES = ("--query-compute-apps=pid,used_gpu_memory", "--format=csv,noheader,nounits")
_NVIDIA_QUERY = ("--query-gpu=index,name,memory.total,memory.free", "--format=csv,noheader,nounits")


@dataclass(frozen=True, slots=True)
class Device:
    """A device that can hold a model. ``id`` is what ``--device`` takes; unknown sizes are None.

    ``free_bytes`` is what could be had now without swapping: caches of files count as free.
    """

    id: str
    kind: Literal["cpu", "gpu"]
    name: str
    memory_bytes: int | None
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine that a run was measured on."""

    platform: str
    cpu: str
    cores: int
    memory_bytes: int
    devices: tuple[str, ...] = ()


def find_devices(root: Path = _ROOT) -> tuple[Device, ...]:
    """GPUs first, then the processor with the memory of the host."""
    return (*_nvidia(), _cpu(root))


def this_machine() -> Hardware:
    """Where a measurement is made."""
    total, _ = _host_memory(_ROOT)
    return Hardware(
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        cpu=_cpu_name(_ROOT),
        cores=_cores(),
        memory_bytes=total,
        devices=tuple(_described(device) for device in _nvidia()),
    )


def gpu_bytes(pids: Collection[int]) -> int | None:
    """Memory of NVIDIA devices that these processes hold, as the driver counts it (NVML), in whole MiB.

    None where there is no such device, where it does not tell by process (``[N/A]``), and in a container
    whose process ids are not those of the driver.
    """
    lines = _run(["nvidia-smi", *_NVIDIA_PROCESSES]).splitlines()
    pairs = [[field.strip() for field in line.split(",")] for line in lines if line.count(",") == 1]
    held = [_mib(size) for pid, size in pairs if pid.isdecimal() and int(pid) in pids]
    return sum(size or 0 for size in held) if held and None not in held else None


def _cpu(root: Path) -> Device:
    total, free = _host_memory(root)
    return Device("cpu", "cpu", _cpu_name(root), total, free)


def _host_memory(root: Path) -> tuple[int, int | None]:
    """Total and free bytes, each the least of what the host has and every group of ours allows."""
    total, free = _meminfo(root) or _physical()
    for limit in memory_limits(root):
        if limit.limit_bytes < total:
            left = max(limit.limit_bytes - limit.used_bytes, 0)
            total, free = limit.limit_bytes, left if free is None else min(free, left)
    return total, free


def _meminfo(root: Path) -> tuple[int, int] | None:
    try:
        lines = (root / "proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    sizes = {name: int(rest.split()[0]) * KIB for name, _, rest in (line.partition(":") for line in lines)}
    return sizes["MemTotal"], sizes["MemAvailable"]


def _physical() -> tuple[int, None]:
    """POSIX tells the total; what is free without swapping, macOS does not say in one number."""
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), None


def _cpu_name(root: Path) -> str:
    try:
        lines = (root / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    if names:
        return names[0]
    said = _run(["sysctl", "-n", "machdep.cpu.brand_string"])
    return said.strip() or platform.processor() or platform.machine()


def _cores() -> int:
    """Cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _nvidia() -> tuple[Device, ...]:
    """NVIDIA devices by the tool that comes with every driver; it counts in MiB."""
    lines = _run(["nvidia-smi", *_NVIDIA_QUERY]).splitlines()
    return tuple(_nvidia_device(line) for line in lines if line.count(",") == 3)


def _nvidia_device(line: str) -> Device:
    index, name, total, free = (field.strip() for field in line.split(","))
    return Device(f"cuda:{index}", "gpu", name, _mib(total), _mib(free))


def _mib(text: str) -> int | None:
    """``[N/A]`` on devices that share the host's memory."""
    return int(text) * MIB if text.isdecimal() else None


def _described(device: Device) -> str:
    memory = "" if device.memory_bytes is None else f", {format_gib(device.memory_bytes)}"
    return f"{device.id} {device.name}{memory}"


def _run(argv: list[str]) -> str:
    """What a tool prints; nothing where it is absent or fails."""
    if shutil.which(argv[0]) is None:
        return ""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_ASK_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


_STAT = Path("/proc/stat")
_SECONDS = 0.3


def idle_cores(cores: int) -> int:
    """Idle cores among ``cores``, at least 1: sampled where the system counts ticks, else by the load."""
    before = _ticks(_STAT)
    if before is None:
        return max(1, round(cores - os.getloadavg()[0]))
    time.sleep(_SECONDS)
    after = _ticks(_STAT)
    return cores if after is None else idle_between(before, after, cores=cores)


def idle_between(before: tuple[int, int], after: tuple[int, int], *, cores: int) -> int:
    """Idle cores between two readings of (idle, all) ticks."""
    idle, total = (end - start for start, end in zip(before, after, strict=True))
    return max(1, round(cores * idle / total)) if total > 0 else cores


def _ticks(stat: Path) -> tuple[int, int] | None:
    """Idle (waiting for disks included) and all ticks since boot, over all cores (proc(5))."""
    try:
        fields = [int(field) for field in stat.read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError, IndexError):
        return None
    return fields[3] + fields[4], sum(fields)
