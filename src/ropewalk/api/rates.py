"""How often a client may ask: a bucket of tokens for each, refilled at a steady rate."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable

BURST_SECONDS = 2.0
MAX_CLIENTS = 4096


class RateLimiter:
    """``rate`` requests per second for each client, and at once what two seconds would allow."""

    def __init__(self, rate: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate
        self._burst = max(rate * BURST_SECONDS, 1.0)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, client: str) -> float:
        """Take one request; 0 if it may be answered now, else after how long one may."""
        now = self._clock()
        left, seen = self._buckets.pop(client, (self._burst, now))
        left = min(self._burst, left + (now - seen) * self._rate)
        is_allowed = left >= 1.0
        self._buckets[client] = (left - 1.0 if is_allowed else left, now)
        if len(self._buckets) > MAX_CLIENTS:
            self._buckets.popitem(last=False)  # the one that was silent longest, so nearly full again
        return 0.0 if is_allowed else (1.0 - left) / self._rate
