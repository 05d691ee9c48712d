"""Eager attention beside sdpa on this machine: time and peak memory over doubling lengths."""

from __future__ import annotations

import ctypes
import re
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

from ropewalk.errors import UsageError
from ropewalk.inspector.records import Inspection
from ropewalk.lab.eager import EAGER_SQUARES, EAGER_SQUARES_HALF, eager_attention, sdpa_attention
from ropewalk.lab.forward import visible
from ropewalk.lab.records import Kernel, KernelPoint, Kernels
from ropewalk.serving.host.devices import find_devices
from ropewalk.units import KIB, format_bytes

FIRST_LEN = 256
_REPEATS = 3
_WARM_LEN = 16
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
_RESIDENT = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)


def time_kernels(inspection: Inspection, *, up_to: int, device: str | None = None) -> Kernels:
    """Both kernels with the heads of a checkpoint at 256, 512, ... tokens, as far as ``up_to``.

    ``device`` is a name of torch's; without it a GPU where there is one. On it numbers are bfloat16, on the
    processor float32. No weight is read. A length whose squares do not fit is left out with its size. Raises
    :class:`UsageError` where the checkpoint has no such heads, or there is no such device.
    """
    heads, kv_heads, size = (
        inspection.value(name) for name in ("num_attention_heads", "num_key_value_heads", "head_dim")
    )
    if not heads or not kv_heads or not size or heads % kv_heads:
        raise UsageError(
            f"no attention to time: {heads} query heads, {kv_heads} KV heads of {size} numbers",
            code="attend_unsupported",
            where={"num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": size},
        )
    bench = _Bench(_device(device), heads=heads, kv_heads=kv_heads, head_dim=size)
    with torch.inference_mode():
        points = tuple(bench.points(up_to))
    return Kernels(
        checkpoint=inspection.checkpoint.source,
        device=str(bench.device),
        dtype=str(bench.dtype).removeprefix("torch."),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        head_dim=size,
        points=points,
        torch_version=str(torch.__version__),
    )


def _device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UsageError(f"torch has no device {name} here", where={"flag": "--device"}) from error
    return device


class _Bench:
    def __init__(self, device: torch.device, *, heads: int, kv_heads: int, head_dim: int) -> None:
        self.device = device
        self.dtype = torch.float32 if device.type == "cpu" else torch.bfloat16
        self._heads, self._kv_heads, self._head_dim = heads, kv_heads, head_dim

    def points(self, up_to: int) -> Iterator[KernelPoint]:
        self._eager(_WARM_LEN)()  # threads and libraries start here, not in the first measurement
        self._sdpa(_WARM_LEN)()
        length = min(FIRST_LEN, up_to)
        while length <= up_to:
            yield self._point("eager", length)
            yield self._point("sdpa", length)
            length *= 2

    def _point(self, kernel: Kernel, length: int) -> KernelPoint:
        square = self._heads * length**2 * self.dtype.itemsize
        flops = 4 * self._heads * self._head_dim * length**2
        squares = EAGER_SQUARES if self.dtype == torch.float32 else EAGER_SQUARES_HALF
        needed, free = squares * square, _free_bytes(self.device)
        if kernel == "eager" and free is not None and needed > free:
            note = f"not run: about {format_bytes(needed)} needed, {format_bytes(free)} free"
            return KernelPoint(kernel, length, square, flops, None, None, note)
        attention = self._eager(length) if kernel == "eager" else self._sdpa(length)
        before = _reset_peak(self.device)
        attention()
        peak = _peak(self.device)
        taken = None if before is None or peak is None else max(peak - before, 0)
        seconds = min(_timed(attention, self.device) for _ in range(_REPEATS))
        return KernelPoint(kernel, length, square, flops, seconds, taken)

    def _eager(self, length: int) -> Callable[[], object]:
        mask = visible(length, None).to(self.device)
        return partial(eager_attention, *self._inputs(length), mask)

    def _sdpa(self, length: int) -> Callable[[], object]:
        return partial(sdpa_attention, *self._inputs(length), None)

    def _inputs(self, length: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Random queries, keys and values of one sequence."""
        query, key, value = (
            torch.randn(1, count, length, self._head_dim, dtype=self.dtype, device=self.device)
            for count in (self._heads, self._kv_heads, self._kv_heads)
        )
        return query, key, value


def _timed(attention: Callable[[], object], device: torch.device) -> float:
    _wait(device)
    began = time.perf_counter()
    attention()
    _wait(device)
    return time.perf_counter() - began


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def _free_bytes(device: torch.device) -> int | None:
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return find_devices()[-1].free_bytes


def _reset_peak(device: torch.device) -> int | None:
    """Start counting the peak anew; what is held now. None where the system does not tell.

    Linux: ``5`` in /proc/self/clear_refs sets VmHWM back to VmRSS (proc(5)).
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        return int(torch.cuda.memory_allocated(device))
    _trim_heap()
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return _status(_RESIDENT)


def _trim_heap() -> None:
    """Have glibc hand freed memory back, so that what a kernel takes shows as growth; others keep none or
    cannot be asked."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _peak(device: torch.device) -> int | None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
        return int(torch.cuda.max_memory_allocated(device))
    return _status(_PEAK)


def _status(field: re.Pattern[str]) -> int | None:
    found = field.search(Path("/proc/self/status").read_text())
    return int(found[1]) * KIB if found else None
