"""The one door from the screens to the rest of ropewalk: every method blocks, and is called in a worker."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ropewalk import core
from ropewalk.engines import EngineName
from ropewalk.errors import UsageError
from ropewalk.inspector.layer_kinds import LayerGroup
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.serving.host.devices import Device
from ropewalk.tui import places
from ropewalk.tui.serverrun import Serving
from ropewalk.tui.state import Masks, Opened, first_request
from ropewalk.tui.stored import Stored

if TYPE_CHECKING:
    from ropewalk.planner.rope.table import RopeTable
    from ropewalk.serving.host.probe import Host

REACH_SEQUENCES = (1, 2, 4, 8)


@dataclass(frozen=True, slots=True)
class ReachRow:
    """Largest context per sequence for 1, 2, 4 and 8 sequences in one cache type; None where none fits."""

    cache_type: str
    context_lens: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class HeadsRow:
    """What the cache would cost with another number of KV heads."""

    num_key_value_heads: int
    bytes_per_token: int
    context_bytes: int
    is_actual: bool


class Backend:
    """What the application can have done.

    ``state`` is the folder for its list of recent checkpoints, ``runs`` the file of measurements (see
    :class:`Stored`); None takes the user's own.
    """

    def __init__(self, *, state: Path | None = None, runs: Path | None = None) -> None:
        self._state = state
        self._hosts: dict[EngineName, Host] = {}
        self.stored = Stored(runs)
        self.serving = Serving()

    def open(self, source: str) -> Opened:
        """Read a checkpoint. Raises :class:`CheckpointError`."""
        checkpoint = core.open_checkpoint(source)
        opened = Opened(source, checkpoint, core.inspect(checkpoint))
        places.remember(self._recent_path(), _absolute(source))
        return opened

    def devices(self) -> tuple[Device, ...]:
        """What this machine has; GPUs first."""
        return core.devices()

    def first_request(self, opened: Opened, devices: tuple[Device, ...]) -> PlanRequest:
        """What is planned before anybody asked, on the device that every front end takes then."""
        request = first_request(opened, core.default_engine(opened.inspection))
        device = core.default_device(request, self._host(request.engine)) if devices else None
        return replace(request, device=device.id, memory_bytes=device.memory_bytes) if device else request

    def plan(self, opened: Opened, request: PlanRequest) -> Plan:
        """The plan with its command. Raises :class:`RopewalkError` for what cannot be planned."""
        host = self._host(request.engine)
        return core.plan(opened.inspection, request, host=host, store=self.stored.path)

    def _host(self, engine: EngineName) -> Host:
        """The engine and the devices of this machine: looked for once, which may take a second."""
        if engine not in self._hosts:
            self._hosts[engine] = core.probe_host(engine)
        return self._hosts[engine]

    def reach(self, opened: Opened, request: PlanRequest) -> tuple[ReachRow, ...]:
        """How far the budget reaches in each cache type, for several numbers of sequences."""
        if request.memory_bytes is None:
            return ()
        tables = [self._reached(opened, replace(request, num_sequences=count)) for count in REACH_SEQUENCES]
        types = dict.fromkeys(name for table in tables for name in table)
        return tuple(ReachRow(name, tuple(table.get(name) for table in tables)) for name in types)

    def _reached(self, opened: Opened, request: PlanRequest) -> dict[str, int | None]:
        """The largest context by cache type; none where the engine does not take so many sequences."""
        try:
            table = self.plan(opened, request).fit.table
        except UsageError:
            return {}
        return {row.cache_type: row.max_context_len for row in table}

    def rope(self, opened: Opened, request: PlanRequest) -> RopeTable:
        """Every pair's rate and wavelength, and the decision. Raises :class:`RopewalkError`."""
        return core.rope(opened.inspection, request)

    def masks(self, opened: Opened, plan: Plan) -> Masks | None:
        """Live cells of the plan's mask, and with a quarter of the prompt as left padding."""
        if plan.compute is None:
            return None
        tokens, live = plan.context_len, plan.compute.mask
        padding = tokens // 4
        return Masks(
            tokens=tokens,
            causal=live.causal,
            padding=padding,
            padded=core.padded_cells(tokens, padding),
            window=max((group.window for group in opened.inspection.layers if group.window), default=None),
            windowed=live.window,
        )

    def cache_types(self, engine: EngineName) -> tuple[str, ...]:
        """The types of KV cache worth planning for."""
        return core.cache_types(engine)

    def what_if_heads(self, opened: Opened, request: PlanRequest) -> tuple[HeadsRow, ...]:
        """The cache for every number of KV heads that divides the query heads; none for latent attention."""
        inspection = opened.inspection
        query, actual = inspection.value("num_attention_heads"), inspection.value("num_key_value_heads")
        if not isinstance(query, int) or not any(map(_has_heads, inspection.layers)):
            return ()
        rows = []
        for count in (count for count in range(1, query + 1) if query % count == 0):
            groups = tuple(
                group.split_heads(count) if _has_heads(group) else group for group in inspection.layers
            )
            changed = replace(opened, inspection=replace(inspection, layers=groups))
            kv = self.plan(changed, request).memory.kv
            rows.append(HeadsRow(count, kv.bytes_per_token, kv.logical_bytes, count == actual))
        return tuple(rows)

    def recent(self) -> tuple[str, ...]:
        """Sources opened before, the latest first."""
        return places.recent(self._recent_path())

    def folder(self, path: str) -> tuple[places.OpenEntry, ...]:
        """What a folder holds. Raises OSError."""
        return places.folder_entries(Path(path))

    def cached(self) -> tuple[places.OpenEntry, ...]:
        """The models in the Hub's cache."""
        return places.cached_repositories()

    def complete(self, typed: str, known: tuple[str, ...]) -> str | None:
        """The rest of what is typed as a path or Hub id."""
        return places.completion(typed, known=known)

    def _recent_path(self) -> Path:
        if self._state is None:
            import platformdirs

            self._state = platformdirs.user_state_path("ropewalk")
        return self._state / "recent.json"


def _has_heads(group: LayerGroup) -> bool:
    return group.kind in ("full", "sliding", "chunked") and group.num_key_value_heads is not None


def _absolute(source: str) -> str:
    """A path that is found again from another folder; a Hub id as it is."""
    path = Path(source).expanduser()
    return str(path.resolve()) if path.exists() else source
