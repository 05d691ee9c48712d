"""Which build of llama.cpp changed what, as far as it was read: between the two builds either rule may hold.

Builds are numbered by commits; where only a day is known, the nearest builds that others named on days
before and after stand for it (b9174 2026-05-16, b9263 -05-21, b9701 -06-18, b9986 -07-14, b10183 -07-29,
b10437 -08-16, b10819 -09-05).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NUMBER = re.compile(r"[0-9]{4,6}$")


def build_number(version: str | None) -> int | None:
    """The number in ``b11434`` or ``2026.10.11549``; None for what names no build."""
    found = _NUMBER.search(version or "")
    return int(found[0]) if found else None


@dataclass(frozen=True, slots=True)
class Change:
    """A change that build ``absent`` did not have and build ``present`` had."""

    absent: int
    present: int

    def surely(self, version: str | None) -> bool:
        """Whether this build has it for certain. Without a number the newest rules hold."""
        number = build_number(version)
        return number is None or number >= self.present

    def maybe(self, version: str | None) -> bool:
        """Whether this build may have it."""
        number = build_number(version)
        return number is None or number > self.absent


# Masks of flash attention are f16 from the start, where f32 ones were cast to it (#23764, 2026-05-29).
HALF_MASK = Change(9263, 9701)
# Rows of logits are reserved for the slots, not for every token of a ubatch (#23861, 2026-06-01).
FEW_LOGITS = Change(9263, 9701)
# CUDA's flash attention reserves f16 copies of other caches in the buffer, not in a pool (#23907, 2026-06).
COPIES_RESERVED = Change(9263, 9701)
# MTP blocks are loaded only where they draft (#26296, 2026-07-31).
MTP_ON_DEMAND = Change(10183, 10437)
# A batch may mix tokens and embeddings: two more rows of them on the host and on the device (absent in the
# logs of #25465, 2026-07-13; present in one of 2026-08-30).
MIXED_BATCH = Change(9986, 10621)
# CUDA's default build has kernels for every pair of types but iq4_nl (absent in b10819, #28455).
ALL_PAIRS = Change(10819, 11434)
# Values are stored by rows with indices of their own (#14285, 2025-07; b5830 and b6000 around it).
SET_ROWS = Change(5700, 6000)
# The graph has tokens and embeddings as inputs and selects one (#18550, 2026-01).
SELECTED_INPUT = Change(7000, 8204)
# -ngl counts the output layer first, where it came only beyond all blocks (b6000 still had it so).
OUTPUT_FIRST = Change(6000, 8204)
# --fit is there, and on (#16653, 2025-12-15; b7437 of the next day has it).
FIT = Change(7003, 7437)
# --fit leaves room for a draft: as much as it takes at the trained length (#23485, 2026-05-21; #23772 names
# b9297 without and b9305 with it) ...
DRAFT_RESERVED = Change(9297, 9305)
# ... then as much as it takes at the length that is left (``common_fit_extra_model``).
DRAFT_FITTED = Change(10437, 11434)
# --fit asks for the trained length of every slot that has a cache of its own (#27496, after 2026-08-21).
FIT_PER_SLOT = Change(10437, 11434)
# CUDA has no buffers split by rows any more (#24216; b9890, 2026-07).
ROW_GONE = Change(9889, 9890)
