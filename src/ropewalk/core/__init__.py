"""The whole job as a handful of functions; every front end calls these and nothing behind them.

Data flows one way: checkpoint, inspection, plan, launch, measurement. Each function takes and gives
records; a stage imports what it needs when it is called, so that asking for one does not start the others.
Those of ``import ropewalk`` (``inspect``, ``plan``, ``choose``, ``check``, ``serve``, ``measure``,
``attend``) take a request as keywords as well, and raise :class:`UsageError` for a wrong argument.
"""

from __future__ import annotations

from ropewalk.core.arguments import Source
from ropewalk.core.attention import attend, time_kernels
from ropewalk.core.checking import check, read_log, receipts
from ropewalk.core.choosing import choose
from ropewalk.core.comparing import compare
from ropewalk.core.machine import (
    default_device,
    demo_model,
    devices,
    doctor,
    install_engine,
    installable_engines,
    probe_host,
    require_engine,
)
from ropewalk.core.measuring import measure
from ropewalk.core.planning import (
    bake,
    cache_types,
    default_engine,
    emit,
    padded_cells,
    plan,
    read_plan,
    rope,
    server_options,
)
from ropewalk.core.reading import cache_summary, checkpoints, inspect, matching, open_checkpoint, tensors
from ropewalk.core.runs import (
    asked,
    default_store_path,
    open_store,
    pace_of,
    pair_runs,
    recall_cells,
    recalls_enough,
    speed_points,
    trials_csv,
)
from ropewalk.core.serving import (
    clear_leftovers,
    dies_with_this_process,
    find_server,
    launch,
    log_tail,
    running_servers,
    serve,
    servers,
    start,
    stop_server,
    watch,
)

__all__ = [
    "Source",
    "asked",
    "attend",
    "bake",
    "cache_summary",
    "cache_types",
    "check",
    "checkpoints",
    "choose",
    "clear_leftovers",
    "compare",
    "default_device",
    "default_engine",
    "default_store_path",
    "demo_model",
    "devices",
    "dies_with_this_process",
    "doctor",
    "emit",
    "find_server",
    "inspect",
    "install_engine",
    "installable_engines",
    "launch",
    "log_tail",
    "matching",
    "measure",
    "open_checkpoint",
    "open_store",
    "pace_of",
    "padded_cells",
    "pair_runs",
    "plan",
    "probe_host",
    "read_log",
    "read_plan",
    "recall_cells",
    "recalls_enough",
    "receipts",
    "require_engine",
    "rope",
    "running_servers",
    "serve",
    "server_options",
    "servers",
    "speed_points",
    "start",
    "stop_server",
    "tensors",
    "time_kernels",
    "trials_csv",
    "watch",
]
