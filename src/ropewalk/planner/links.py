"""How fast devices reach each other: nominal figures of published systems."""

from __future__ import annotations

# Bytes per second of one device inside a node and between nodes; aiconfigurator-core 0.12,
# systems/h100_sxm.yaml (NVLink 4, and 400 Gbit/s for each GPU). Nominal: nothing was measured here.
LINKS: dict[str, tuple[int, int]] = {"h100-sxm": (450 * 10**9, 50 * 10**9)}

# What one send or one all-reduce takes before its first byte, seconds; the same file.
LATENCY_SECONDS = 10e-6
