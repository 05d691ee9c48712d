"""Stand-ins for all that the application can have done: they answer from records and note what was asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.cli import records

from ropewalk.engines import EngineName
from ropewalk.errors import CheckpointMissingError, EngineFailedError, RopewalkError, RunStoreError
from ropewalk.inspector.records import Checkpoint, CheckpointFile
from ropewalk.inspector.tensors import TensorTable
from ropewalk.measuring import events
from ropewalk.measuring.records import Measurement, Trial
from ropewalk.measuring.run_pair import RunPair, pair_runs
from ropewalk.measuring.settings import RunRequest
from ropewalk.measuring.store import RunSummary
from ropewalk.planner.records import Memory, MemoryTerm, Plan, PlanRequest, RankPlace, WayOut
from ropewalk.planner.rope.table import RopeTable
from ropewalk.serving.host.devices import Device
from ropewalk.serving.host.probe import Host
from ropewalk.serving.host.process_memory import MemorySample, Resident
from ropewalk.serving.live import Moment
from ropewalk.serving.preflight import PreflightItem, require_passed
from ropewalk.serving.server_report import PrintedBuffer, ServerLoad, ServerReport
from ropewalk.serving.service import ServeSettings, Service
from ropewalk.serving.verify import NOT_VERIFIED
from ropewalk.tui import serverrun
from ropewalk.tui.control import Control
from ropewalk.tui.places import OpenEntry
from ropewalk.tui.serverrun import Serving
from ropewalk.tui.state import Masks, Opened
from ropewalk.tui.stored import Stored
from ropewalk.tui.work import Backend, HeadsRow, ReachRow
from ropewalk.units import GIB, MIB

RUN = records.smollm2_measurement()
OTHER_RUN = replace(RUN, run_id="20261129-0900-00aa", status="interrupted", created="2026-11-29T09:00:00Z")
CPU = Device("cpu", "cpu", "Example CPU", 64 * GIB, 60 * GIB)
GPU = Device("cuda:0", "gpu", "Example GPU", 48 * GIB, 47 * GIB)
LOOKS = 3  # of a server that runs; more would come faster than a busy machine can draw them
WAYS = (
    WayOut("tensor_parallel", ("--tensor-parallel", "2"), 18 * GIB, 22 * GIB),
    WayOut("cache_type", ("--kv-type", "fp8"), 21 * GIB, 22 * GIB),
    WayOut("weights", (), 22 * GIB, 22 * GIB, 8 * GIB),
)
BLOCK = (
    ("input_layernorm.weight", (4096,)),
    ("mlp.down_proj.weight", (4096, 12288)),
    ("mlp.gate_proj.weight", (12288, 4096)),
    ("mlp.up_proj.weight", (12288, 4096)),
    ("post_attention_layernorm.weight", (4096,)),
    ("self_attn.k_norm.weight", (128,)),
    ("self_attn.k_proj.weight", (1024, 4096)),
    ("self_attn.o_proj.weight", (4096, 4096)),
    ("self_attn.q_norm.weight", (128,)),
    ("self_attn.q_proj.weight", (4096, 4096)),
    ("self_attn.v_proj.weight", (1024, 4096)),
)


def table_of(tensors: Sequence[tuple[str, str, tuple[int, ...], int]]) -> TensorTable:
    """A table in one file; name, dtype, shape and bytes of each tensor."""
    table = TensorTable()
    file, offset = table.add_file("model-00001-of-00005.safetensors"), 0
    for name, dtype, shape, nbytes in tensors:
        table.append(name, dtype, shape, nbytes, file, offset)
        offset += nbytes
    return table


def qwen3_table() -> TensorTable:
    """The 399 tensors of Qwen3-8B."""
    named: list[tuple[str, tuple[int, ...]]] = [
        ("lm_head.weight", (151936, 4096)),
        ("model.embed_tokens.weight", (151936, 4096)),
    ]
    named += [(f"model.layers.{layer}.{name}", shape) for layer in range(36) for name, shape in BLOCK]
    named.append(("model.norm.weight", (4096,)))
    sizes = [(name, "BF16", shape, 2 * prod(shape)) for name, shape in named]
    return table_of(sizes)


def opened(source: str = "models/Qwen3-8B", table: TensorTable | None = None) -> Opened:
    """Qwen3-8B as the application holds it; one named ``lying`` has a config that the tensors contradict."""
    inspection = records.lying() if "lying" in source else records.qwen3_8b()
    files = (CheckpointFile("model-00001-of-00005.safetensors", 3 * GIB),)
    checkpoint = Checkpoint(
        source, Path(source), "safetensors", files, qwen3_table() if table is None else table
    )
    return Opened(source, checkpoint, inspection)


def _over_stages(memory: Memory, request: PlanRequest) -> Memory:
    """As many devices that hold alike as there are stages, dealt out to the nodes."""
    count = request.pipeline_parallel
    if count == 1:
        return memory
    (share,) = memory.per_device
    places = (RankPlace(node=stage * request.nodes // count, stage=stage) for stage in range(count))
    shares = (replace(share, device=f"gpu:{place.stage}", place=place) for place in places)
    return replace(memory, per_device=tuple(shares))


class FakeBackend(Backend):
    """Answers at once; ``asked`` are the requests that were planned."""

    stored: FakeStored
    serving: FakeServing

    def __init__(self, folder: Path) -> None:
        super().__init__(state=folder)
        self.stored = FakeStored()
        self.serving = FakeServing(folder)
        self.asked: list[PlanRequest] = []
        self.tables: dict[str, TensorTable] = {}
        self.problem: RopewalkError | None = None
        self.found: tuple[Device, ...] = (GPU, CPU)

    def open(self, source: str) -> Opened:
        """The model of records, whatever the name; one with ``missing`` is not there."""
        if "missing" in source:
            message = f"{source}: no such file or folder, and no Hub id (org/name[@revision])"
            raise CheckpointMissingError(message, where={"file": source})
        return opened(source, self.tables.get(source))

    def devices(self) -> tuple[Device, ...]:
        return self.found

    def _host(self, engine: EngineName) -> Host:
        return Host(None, self.found)

    def plan(self, opened: Opened, request: PlanRequest) -> Plan:
        """Qwen3-8B at 131,072 tokens with this request; it fits while that is below 200,000 tokens."""
        self.asked.append(request)
        if self.problem is not None:
            raise self.problem
        if request.arm == "auto" and request.context_len > 1_000_000:
            base = records.refused()
        elif request.memory_bytes is None:
            base = records.no_budget()
        else:
            base = records.too_large() if request.context_len > 200_000 else records.qwen3_plan()
        if request.engine == "transformers":
            held = MemoryTerm("score_matrix", GIB, GIB, GIB, "estimate", "eager attention")
            base = replace(base, memory=replace(base.memory, terms=(*base.memory.terms, held)))
        fit = replace(
            base.fit,
            usable_bytes=None if base.fit.budget_bytes is None else base.fit.budget_bytes * 92 // 100,
        )
        memory = _over_stages(base.memory, request)
        ways = WAYS if base.fit.fits is False else ()
        return replace(
            base, request=request, context_len=request.context_len, fit=fit, memory=memory, ways_out=ways
        )

    def reach(self, opened: Opened, request: PlanRequest) -> tuple[ReachRow, ...]:
        if request.memory_bytes is None:
            return ()
        return (
            ReachRow("auto", (188416, 94208, 47104, 23552)),
            ReachRow("fp8", (376832, 188416, 94208, None)),
        )

    def masks(self, opened: Opened, plan: Plan) -> Masks | None:
        tokens = plan.context_len
        return Masks(tokens, 8_590_000_128, tokens // 4, 4_831_887_360, 1024, 133_694_976)

    def cache_types(self, engine: EngineName) -> tuple[str, ...]:
        return {"llama-server": ("auto", "q8_0")}.get(engine, ("auto", "fp8"))

    def rope(self, opened: Opened, request: PlanRequest) -> RopeTable:
        if self.problem is not None:
            raise self.problem
        kind, _, factor = request.arm.partition(":")
        decision = records.yarn(float(factor), 32768) if kind == "yarn" else records.yarn(4.0, 32768)
        return replace(records.qwen3_rope(), context_len=request.context_len, decision=decision)

    def what_if_heads(self, opened: Opened, request: PlanRequest) -> tuple[HeadsRow, ...]:
        return tuple(
            HeadsRow(heads, 18432 * heads, 18432 * heads * request.context_len, heads == 8)
            for heads in (1, 2, 4, 8, 16, 32)
        )

    def cached(self) -> tuple[OpenEntry, ...]:
        return (
            OpenEntry("Qwen/Qwen3-8B", "Qwen/Qwen3-8B", "checkpoint", 16 * GIB),
            OpenEntry("HuggingFaceTB/SmolLM2-135M", "HuggingFaceTB/SmolLM2-135M", "checkpoint", 270 * MIB),
        )


def trial(arm: str, length: int, depth: float, outcome: Any = "hit", *, seed: int = 1) -> Trial:
    """One question of the grid."""
    answer = " 1234567." if outcome == "hit" else " 7654321."
    return Trial(
        key=f"{arm}-{length}-{depth}-{seed}", arm=arm, task="niah_single", length=length, depth=depth,
        seed=seed, prompt_sha256="00", expected=("1234567",), answer=answer,
        outcome=outcome, reported_tokens=length, cached_tokens=0 if depth in (0.0, 0.1) else length - 80,
        prefill_seconds=length / 300, decode_tokens_per_second=40.0, needle_at=int(length * depth),
    )  # fmt: skip


def grid_trials() -> tuple[Trial, ...]:
    """All trials of the three arms of the record."""
    outcomes: dict[str, Any] = {
        "hit": "hit",
        "miss": "miss",
        "wrong_needle": "wrong_needle",
        "refused": "refused",
    }
    return tuple(
        trial(arm.arm, cell.length, cell.depth, outcomes[next(iter(cell.outcomes))])
        for arm in RUN.arms
        for cell in arm.cells
    )


class FakeStored(Stored):
    """Two runs; a measurement says what ``script`` holds and then waits to be let go or ended."""

    def __init__(self) -> None:
        super().__init__(None)
        self.kept: dict[str, Measurement] = {RUN.run_id: RUN, OTHER_RUN.run_id: OTHER_RUN}
        self.orders: list[RunRequest] = []
        self.script: list[events.Event] = measuring()
        self.last = threading.Event()
        self.problem: RopewalkError | None = None

    def runs(self) -> tuple[RunSummary, ...]:
        return tuple(
            RunSummary(
                run.run_id, run.status, run.created, run.checkpoint, run.target_len,
                tuple(arm.arm for arm in run.arms), 45,
            )
            for run in self.kept.values()
        )  # fmt: skip

    def run(self, run_id: str) -> Measurement:
        if run_id not in self.kept:
            raise RunStoreError(f"no run begins with {run_id!r}", code="run_not_found")
        return self.kept[run_id]

    def pair(self, run_id: str, other_id: str) -> RunPair:
        return pair_runs(self.run(run_id), self.run(other_id), trials=(grid_trials(), grid_trials()))

    def trials(self, run_id: str) -> tuple[Trial, ...]:
        return grid_trials()

    def forget(self, run_id: str) -> None:
        del self.kept[run_id]

    def measure(self, opened: Opened, request: RunRequest, control: Control) -> Measurement:
        self.orders.append(request)
        if self.problem is not None:
            raise self.problem
        for event in self.script:
            control(event)
        while not self.last.wait(0.002):
            if control.is_ended:
                raise KeyboardInterrupt
        control(events.RunEnded(RUN))
        return RUN


def measuring() -> list[events.Event]:
    """What a run tells up to the middle of its second arm."""
    lengths, depths = (1945, 7885, 11878), (0.1, 0.3, 0.5, 0.7, 0.9)
    told: list[events.Event] = [
        events.RunStarted("20261130-1800-beef", ("shipped", "yarn:1.5")),
        events.GridChosen(lengths, depths, 1),
        events.ArmStarted("shipped", "as shipped", 8192),
        events.ArmReady("shipped", 1.2, 8192),
        events.MemoryMarked("shipped", MemorySample("loaded", 190 * MIB, 92 * MIB, 1.2)),
        events.MemoryMarked("shipped", MemorySample("ubatch", 210 * MIB, 92 * MIB, 3.0)),
    ]
    marks: dict[int, Sequence[Any]] = {
        1945: ("hit", "miss", "hit", "hit", "hit"),
        7885: ("hit", "miss", "miss", "wrong_needle", "hit"),
        11878: ("refused",) * 5,
    }
    done = 0
    for length, outcomes in marks.items():
        for depth, outcome in zip(depths, outcomes, strict=True):
            told.append(events.PromptSent("shipped", "niah_single", length, depth, 5.0))
            done += length if depth == 0.1 else 80
            told.append(
                events.TrialEnded(
                    trial("shipped", length, depth, outcome), events.Progress(done, 60_000, 75.0)
                )
            )
    told.append(events.MemoryMarked("shipped", MemorySample("longest", 214 * MIB, 92 * MIB, 40.0)))
    told.append(events.ArmStarted("yarn:1.5", "YaRN 1.5", 12288))
    told.append(events.ArmReady("yarn:1.5", 1.3, 12288))
    told.append(events.PromptSent("yarn:1.5", "niah_single", 1945, 0.1, 6.0))
    return told


class FakeServer:
    """A server that is ready at once, and is stopped by leaving it."""

    base_url = "http://127.0.0.1:8000"
    log_path = Path("serve.log")
    ready_seconds = 2.1
    pid = 4242
    findings = ()
    report = ServerReport(
        "Qwen3-8B", 131072, 1, 131088,
        (
            PrintedBuffer("weights", "CUDA0", 16381470720, 5_000_000),
            PrintedBuffer("kv_cache", "CUDA0", 18 * GIB + 147456 * 16, 5_000_000),
            PrintedBuffer("activations", "CUDA0", 4 * GIB, 5_000_000),
        ),
    )  # fmt: skip

    def __init__(self, serving: FakeServing) -> None:
        self._serving = serving

    def interrupt(self) -> None:
        """Nothing is under way."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._serving.stopped += 1


class Interrupted(threading.Event):
    """A process that notes that it was interrupted."""

    def interrupt(self) -> None:
        self.set()


class FakeServing(Serving):
    """Checks that pass unless ``failing`` names one, and a server that is idle until it is stopped."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.failing: str | None = None
        self.dies: str | None = None
        self.hangs = False
        self.ports: list[int | None] = []
        self.started = self.stopped = 0

    def start(
        self,
        opened: Opened,
        plan: Plan,
        settings: ServeSettings,
        *,
        on_check: Callable[[PreflightItem], None],
        on_start: Callable[[Path], None],
        on_log: Callable[[str], None],
        on_process: Callable[[Any], None],
    ) -> Service:
        self.ports.append(settings.port)
        checks = tuple(self.checks())
        for item in checks:
            on_check(item)
        if not settings.force:
            require_passed(checks)
        (self.folder / "serve.log").touch()
        on_start(Path("serve.log"))  # the tests run in the folder
        for line in ("INFO loading weights", "ERROR something small", "INFO ready [bold]not markup[/]"):
            on_log(line)
        if self.dies is not None:
            raise EngineFailedError(self.dies)
        if self.hangs:
            told = Interrupted()
            on_process(told)
            told.wait()
            raise EngineFailedError("it ended while it started")
        self.started += 1
        server: Any = FakeServer(self)
        return Service(plan, checks, server, NOT_VERIFIED, plan.findings)

    def checks(self) -> Iterator[PreflightItem]:
        """Some of those that are made."""
        for name, message in (
            ("checkpoint", "vllm reads safetensors"),
            ("flags", "vllm 0.33.0 knows every flag of the command"),
            ("memory", "up to 36.00 GiB on cuda:0, 47.50 GiB are free now"),
            ("port", "port 8000 on 127.0.0.1 is free"),
        ):
            yield PreflightItem(name, name != self.failing, message)
        yield PreflightItem("chat_template", None, "none: prompts are continued as plain text")

    def watch(self, server: Any) -> Callable[[], Moment]:
        looks = iter(range(LOOKS))

        def look() -> Moment:
            second = next(looks)
            if second == LOOKS - 1:
                serverrun.LOOK_SECONDS = 3600.0  # the next look is at the end of the test
            load = ServerLoad(1, 0, 0.25, 32768, 32768, 128)
            return Moment("busy", 10.0 + second, load, 380.0, 40.0, Resident(20 * GIB, 15 * GIB))

        return look
