"""Devices and memory read from made-up systems."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ropewalk.serving.host.cgroups import MemoryLimit, memory_limits
from ropewalk.serving.host.devices import find_devices, gpu_bytes, this_machine
from ropewalk.units import GIB, MIB

MEMINFO = "MemTotal:       16777216 kB\nMemFree:         1000000 kB\nMemAvailable:    8388608 kB\n"
CPUINFO = "processor : 0\nmodel name\t: Imaginary CPU @ 3.00GHz\n"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A system with 16 GiB, 8 of them free, no limits and no GPU."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    write(tmp_path, "proc/meminfo", MEMINFO)
    write(tmp_path, "proc/cpuinfo", CPUINFO)
    write(tmp_path, "proc/self/cgroup", "0::/\n")
    return tmp_path


def write(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def nvidia(root: Path, *lines: str) -> None:
    """A driver's tool that prints these devices."""
    tool = root / "bin/nvidia-smi"
    write(root, "bin/nvidia-smi", f"#!{sys.executable}\nprint({chr(10).join(lines)!r})\n")
    tool.chmod(0o755)


@pytest.mark.parametrize(
    ("lines", "held"),
    [
        (("101, 14000", "102, 500", "999, 70"), 14_500 * MIB),  # a server and its worker, and a stranger
        (("999, 70",), None),
        (("101, [N/A]", "102, 500"), None),  # half of it is no figure
        ((), None),
    ],
)
def test_what_processes_hold_on_gpus(root: Path, lines: tuple[str, ...], held: int | None) -> None:
    nvidia(root, *lines)
    assert gpu_bytes({101, 102}) == held


def test_a_machine_without_limits(root: Path) -> None:
    (cpu,) = find_devices(root)
    assert (cpu.id, cpu.kind, cpu.name) == ("cpu", "cpu", "Imaginary CPU @ 3.00GHz")
    assert (cpu.memory_bytes, cpu.free_bytes) == (16 * GIB, 8 * GIB)
    assert memory_limits(root) == ()


def test_a_container_under_version_2(root: Path) -> None:
    write(root, "proc/self/cgroup", "0::/pod/main\n")
    write(root, "sys/fs/cgroup/pod/main/memory.max", "max\n")
    write(root, "sys/fs/cgroup/pod/memory.max", f"{4 * GIB}\n")
    write(root, "sys/fs/cgroup/pod/memory.current", f"{3 * GIB}\n")
    write(root, "sys/fs/cgroup/pod/memory.stat", f"anon 5\ninactive_file {GIB}\n")
    assert memory_limits(root) == (MemoryLimit(4 * GIB, 2 * GIB),)
    (cpu,) = find_devices(root)
    assert (cpu.memory_bytes, cpu.free_bytes) == (4 * GIB, 2 * GIB)


def test_a_container_under_version_1_that_sees_only_its_own_group(root: Path) -> None:
    write(root, "proc/self/cgroup", "5:cpu:/\n4:memory:/docker/0123\n0::/\n")
    write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", f"{2 * GIB}\n")
    write(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", f"{GIB}\n")
    write(root, "sys/fs/cgroup/memory/memory.stat", "total_inactive_file 0\n")
    (cpu,) = find_devices(root)
    assert (cpu.memory_bytes, cpu.free_bytes) == (2 * GIB, GIB)


def test_a_limit_above_what_there_is_changes_nothing(root: Path) -> None:
    # What version 1 says where nothing is limited.
    write(root, "proc/self/cgroup", "4:memory:/\n")
    write(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n")
    write(root, "sys/fs/cgroup/memory/memory.usage_in_bytes", f"{15 * GIB}\n")
    (cpu,) = find_devices(root)
    assert (cpu.memory_bytes, cpu.free_bytes) == (16 * GIB, 8 * GIB)


def test_nvidia_devices_come_first(root: Path) -> None:
    nvidia(root, "0, NVIDIA H200, 143771, 143000", "1, NVIDIA GB10, [N/A], [N/A]")
    first, second, cpu = find_devices(root)
    assert (first.id, first.kind, first.name) == ("cuda:0", "gpu", "NVIDIA H200")
    assert (first.memory_bytes, first.free_bytes) == (143771 * MIB, 143000 * MIB)
    assert (second.id, second.memory_bytes, second.free_bytes) == ("cuda:1", None, None)
    assert cpu.id == "cpu"


def test_a_driver_that_fails_has_no_devices(root: Path) -> None:
    nvidia(root, "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")
    assert [device.id for device in find_devices(root)] == ["cpu"]


def test_this_machine() -> None:
    machine = this_machine()
    assert machine.memory_bytes > 0
    assert machine.cores >= 1
    assert machine.cpu
