"""ropewalk: inspect, plan, choose, check, serve and measure open-weights language models at long context.

    import ropewalk

    inspection = ropewalk.inspect("Qwen/Qwen3-8B")
    plan = ropewalk.plan(inspection, context_len=131072, memory_bytes=48 * 1024**3)
    print(plan.rope.reason, plan.fit.fits)
    print(plan)  # the page of the command line

Seven functions, the records that they take and give, and the errors that they raise. The names are listed in
``__init__.pyi`` and imported when they are first asked for. Printed, or in a notebook, the records are pages.
"""

from __future__ import annotations

from importlib import import_module
from os.path import splitext

from ropewalk._version import __version__ as __version__


def _homes() -> dict[str, str]:
    """The module of each public name."""
    with open(f"{splitext(__file__)[0]}.pyi", encoding="utf-8") as stub:
        words = [line.split() for line in stub if line.startswith("from ")]
    return {name: module for _, module, _, name, *_ in words}


def __getattr__(name: str) -> object:
    homes = _homes()
    if name == "__all__":
        return sorted(homes)
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(homes[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(_homes())
