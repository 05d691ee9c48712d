"""Cards by name: what the driver reports of them, and the nominal figures that bound their speed.

``memory_bytes`` is the total that CUDA reports to a process (the figure of "has a total capacity of" and of
vLLM's start), which is less than what is printed on the box and than ``nvidia-smi`` counts; where it was read
stands beside it, and it differs by a few hundredths between drivers. Bandwidth, peak (dense, 16 bits) and
link are nominal, of the makers' data sheets: bounds, not measurements.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass

from ropewalk.errors import UsageError
from ropewalk.planner.machine import DeviceKind, Machine, MemoryKind
from ropewalk.units import GIB

_GB, _TERA = 10**9, 10**12


@dataclass(frozen=True, slots=True)
class Card:
    """One card. ``link_speed`` is what one sends to its neighbours per second, in bytes; ``source`` says
    where the memory was read."""

    name: str
    memory_bytes: int
    bandwidth: int
    peak_flops: int
    link_speed: int
    multiprocessors: int
    source: str
    kind: DeviceKind = "gpu"
    memory_kind: MemoryKind = "gddr"


@dataclass(frozen=True, slots=True)
class Cards:
    """What ``--gpu`` names: so many of one card."""

    card: Card
    count: int

    def machine(self) -> Machine:
        """The machine that they stand for, nothing else running on it."""
        card = self.card
        return Machine(
            kind=card.kind,
            memory_bytes=card.memory_bytes,
            free_bytes=None,
            bandwidth=float(card.bandwidth),
            peak_flops=float(card.peak_flops),
            name=card.name,
            multiprocessors=card.multiprocessors,
            memory_kind=card.memory_kind,
            count=self.count if self.count > 1 else None,
        )


def _card(
    name: str, gib: float, bandwidth: int, peak: float, link: int, multiprocessors: int, source: str
) -> Card:
    kind: MemoryKind = "hbm" if name.startswith(_HBM) else "unified" if source == _METAL else "gddr"
    return Card(
        name, int(gib * GIB), bandwidth * _GB, int(peak * _TERA), link * _GB, multiprocessors, source,
        memory_kind=kind,
    )  # fmt: skip


_METAL = "recommendedMaxWorkingSetSize of Metal, three quarters of the memory (llama.cpp's log)"
_PCIE4, _PCIE5 = 32, 64
_HBM = ("H100", "H200", "B200", "A100")
_CARDS = (
    _card("H100-80GB", 79.19, 3350, 989, 450, 132, "vLLM's log on an H100 SXM (llm-d-planner)"),
    _card("H100-PCIe", 79.11, 2000, 756, _PCIE5, 114, "vllm-project/vllm#27508"),
    _card("H200", 139.72, 4800, 989, 450, 132, "vllm-project/vllm#23192"),
    _card("B200", 178.35, 8000, 2250, 900, 148, "an estimate: no log was found that prints it"),
    _card("A100-80GB", 79.25, 2039, 312, 300, 108, "vLLM's log of 0.31 (0.92 of it is 72.91 GiB)"),
    _card("A100-40GB", 39.38, 1555, 312, 300, 108, "QwenLM/Qwen3-VL#881"),
    _card("L40S", 44.39, 864, 362, _PCIE4, 142, "vLLM's log of 0.26 (0.86 of it is 38.18 GiB)"),
    _card("L4", 22.03, 300, 121, _PCIE4, 58, "ArcInstitute/evo2#190"),
    _card("A10G", 22.05, 600, 70, _PCIE4, 80, "vllm-project/vllm#20305"),
    _card("RTX-A6000", 47.38, 768, 155, _PCIE4, 84, "vllm-project/vllm#20305"),
    _card("T4", 14.56, 320, 65, 16, 40, "Zheng-Chong/CatVTON#133"),
    _card("RTX-5090", 31.36, 1792, 210, _PCIE5, 170, "llama.cpp#25408 (32,111 MiB) and public logs"),
    _card("RTX-5080", 15.48, 960, 113, _PCIE5, 84, "vllm-project/vllm#14452"),
    _card("RTX-4090", 23.64, 1008, 165, _PCIE4, 128, "ali-vilab/VGen#104"),
    _card("RTX-3090", 23.69, 936, 71, _PCIE4, 82, "vllm-project/vllm#2140"),
    _card("M4-Max-64GB", 48.0, 546, 34, 10, 40, _METAL),
    _card("M4-Max-128GB", 96.0, 546, 34, 10, 40, _METAL),
)
_COUNT = re.compile(r"\s*(?:(\d+)\s*[xX×]\s*)?(.+)")
_NOISE = re.compile(r"nvidia|geforce|tesla|hbm3e?|sxm\d?|[\s_-]+", re.IGNORECASE)


def card_names() -> tuple[str, ...]:
    """The names that ``--gpu`` takes."""
    return tuple(card.name for card in _CARDS)


def find_cards(text: str) -> Cards:
    """``"2xH100-80GB"``, ``"RTX 4090"``. Raises :class:`UsageError` with the nearest names.

    A name without a size is the card where there is one of that name, else the largest.
    """
    match = _COUNT.fullmatch(text)
    count, wanted = (int(match[1] or 1), _plain(match[2])) if match else (1, "")
    named = {_plain(card.name): card for card in _CARDS}
    begun = [card for plain, card in named.items() if wanted and plain.startswith(wanted)]
    # "4090" alone is a name too.
    ended = [card for plain, card in named.items() if wanted and plain.endswith(wanted)]
    card = named.get(wanted) or next(iter(begun or ended), None)
    if card is None or count < 1 or not wanted:
        near = difflib.get_close_matches(wanted, list(named), n=3, cutoff=0.4)
        nearest = [named[plain].name for plain in near] or list(card_names())
        raise UsageError(
            f"{text!r} is no card that is known here; nearest: {', '.join(nearest)}. --memory takes any size",
            where={"field": "gpu", "value": text, "nearest": nearest},
        )
    return Cards(card, count)


def _plain(name: str) -> str:
    return _NOISE.sub("", name).lower()
