"""ropewalk: inspect, plan, serve and measure open-weights language models at long context."""

from ropewalk._version import __version__

__all__ = ["__version__"]
