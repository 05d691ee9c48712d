"""One core behind every door: Python, the command line, HTTP and the application give the same records."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import Served, made_settings, no_servers, served
from tests.cli import records
from tests.cli.conftest import Invoke, invoke
from tests.patching import patch_core
from tests.tui.doubles import FakeBackend, FakeServing, FakeStored

from ropewalk import core, jsonio
from ropewalk.api import worker
from ropewalk.api.orders import MeasureOrder
from ropewalk.checking.records import CheckResult
from ropewalk.engines import EngineBuild, EngineName, engine_of, planned_engines, served_engines
from ropewalk.errors import UsageError
from ropewalk.measuring.records import Measurement
from ropewalk.measuring.settings import MeasureSettings, RunRequest
from ropewalk.planner.choice import Choice
from ropewalk.planner.options import PlanOptions, ServerOptions
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.serving.host.devices import Device
from ropewalk.serving.host.probe import Host
from ropewalk.tui.control import Control
from ropewalk.tui.serverrun import Serving
from ropewalk.tui.stored import Stored
from ropewalk.tui.work import Backend
from ropewalk.units import GIB, MIB

__all__ = ["invoke", "no_servers"]

CPU = Device("cpu", "cpu", "Example CPU", 64 * GIB, 60 * GIB)
REQUESTS: dict[str, tuple[PlanOptions, tuple[str, ...]]] = {
    "as trained": ({"context_len": 4096}, ("--context", "4k")),
    "a budget and a cache type": (
        {"context_len": 8192, "memory_bytes": 24 * GIB, "cache_type_k": "auto", "num_sequences": 1},
        ("--context", "8192", "--memory", "24GiB", "--cache-type-k", "auto", "--sequences", "1"),
    ),
    "too large": ({"context_len": 8192, "memory_bytes": GIB}, ("--context", "8k", "--memory", "1G")),
    "scaled": (
        {"context_len": 65536, "arm": "yarn:4", "allow_unvalidated": True, "device": "cpu"},
        ("--context", "64k", "--arm", "yarn:4", "--allow-unvalidated", "--device", "cpu"),
    ),
}
MEASURED: tuple[tuple[MeasureSettings, ServerOptions, tuple[str, ...]], ...] = (
    (MeasureSettings(), {}, ()),
    (
        MeasureSettings(trials=2, lengths=(128, 256), minutes=3.0),
        {"cache_type_k": "q8_0", "cache_type_v": "q8_0", "ubatch": 256},
        (
            "--trials",
            "2",
            "--lengths",
            "128,256",
            "--minutes",
            "3",
            "--cache-type",
            "q8_0",
            "--ubatch",
            "256",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Doors:
    """All of them, over one folder of models, one store and one machine."""

    http: Served
    backend: Backend
    invoke: Invoke
    store: Path
    models: Path

    def source(self, engine: EngineName) -> str:
        """A checkpoint in the format of the engine."""
        return str(self.models / ("model.gguf" if "gguf" in engine_of(engine).formats else "Qwen3-8B"))


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory, smollm2: Path) -> Path:
    """Of models: one as a file, alone in a folder, and a configuration; the data of the files is a hole."""
    models = tmp_path_factory.mktemp("doors")
    made_settings(models)
    with smollm2.open("rb") as file:
        header = file.read(4 * MIB)
    for name in ("model.gguf", "folder/model.gguf"):
        path = models / "models" / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as copy:
            copy.write(header)
            copy.truncate(smollm2.stat().st_size)
    return models


@pytest.fixture
def doors(folder: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> Iterator[Doors]:
    """On a machine without a GPU on which every engine is found."""

    def probe(engine: EngineName, *, path: str | None = None) -> Host:
        return Host(EngineBuild(engine, engine, None, f"/opt/{engine}"), (CPU,))

    settings = made_settings(folder, store=tmp_path / "runs.sqlite3")
    models = settings.models_dirs[0].resolve()
    patch_core(monkeypatch, "probe_host", probe)
    patch_core(monkeypatch, "default_store_path", lambda: settings.store)
    with served(settings) as service:
        yield Doors(service, Backend(state=tmp_path, runs=settings.store), invoke, settings.store, models)


@pytest.mark.parametrize("asked", list(REQUESTS))
@pytest.mark.parametrize("engine", planned_engines())
def test_every_door_makes_the_same_plan(doors: Doors, engine: EngineName, asked: str) -> None:
    options, words = REQUESTS[asked]
    source = doors.source(engine)
    given: dict[str, Any] = {**options, "engine": engine}
    plan = core.plan(source, **given)
    printed = doors.invoke("plan", source, "--engine", engine, *words, "--json")
    assert jsonio.from_data(Plan, json.loads(printed.out)) == plan
    assert printed.status == int(not plan.positive)
    body = {"checkpoint": source, "request": given}
    answer = doors.http.client.post("/v1/plan", json=body)
    assert answer.status_code == 200, answer.text
    assert jsonio.from_data(Plan, answer.json()) == plan
    request = PlanRequest(**given)
    assert doors.backend.plan(doors.backend.open(source), request) == plan


@pytest.mark.parametrize("engine", served_engines()[:2])
def test_without_an_engine_every_door_takes_the_one_for_the_format(doors: Doors, engine: EngineName) -> None:
    source = doors.source(engine)
    plan = core.plan(source, context_len=4096)
    assert plan.request.engine == engine
    printed = doors.invoke("plan", source, "--context", "4k", "--json")
    assert jsonio.from_data(Plan, json.loads(printed.out)) == plan
    answer = doors.http.client.post("/v1/plan", json={"checkpoint": source, "request": {"context_len": 4096}})
    assert jsonio.from_data(Plan, answer.json()) == plan
    opened = doors.backend.open(source)
    first = doors.backend.first_request(opened, (CPU,))
    assert first.engine == engine
    named = core.default_device(plan.request, core.probe_host(engine))
    assert first.device == (named.id if named else "auto")


def test_every_door_refuses_the_same(doors: Doors) -> None:
    source = doors.source("vllm")
    with pytest.raises(UsageError) as raised:
        core.plan(source, context_len=-1)
    error = raised.value
    printed = doors.invoke("plan", source, "--context", "4k", "--memory", "24", "--json")
    with pytest.raises(UsageError) as small:
        core.plan(source, context_len=4096, memory_bytes=24)
    assert json.loads(printed.out) == small.value.record()
    answer = doors.http.client.post("/v1/plan", json={"checkpoint": source, "request": {"context_len": -1}})
    assert (answer.status_code, answer.json()["code"], answer.json()["detail"]) == (
        error.http_status,
        error.code,
        error.message,
    )
    with pytest.raises(UsageError, match=error.message):
        doors.backend.plan(doors.backend.open(source), PlanRequest(-1, "vllm"))


def test_every_door_chooses_the_same(doors: Doors) -> None:
    sources = [doors.source("llama-server"), doors.source("vllm")]
    choice = core.choose(sources, context_len=4096, memory_bytes=24 * GIB)
    assert choice.command is not None
    printed = doors.invoke("choose", *sources, "--context", "4k", "--memory", "24GiB", "--json")
    assert jsonio.from_data(Choice, json.loads(printed.out)) == choice
    request = {"memory_bytes": 24 * GIB}
    body = {"checkpoints": sources, "context_len": 4096, "request": request}
    answer = doors.http.client.post("/v1/choose", json=body)
    assert jsonio.from_data(Choice, answer.json()) == choice
    with pytest.raises(UsageError) as raised:
        core.choose(sources, context_len=4096, gpu="RTX 9999")
    refused = doors.http.client.post("/v1/choose", json={**body, "request": {"gpu": "RTX 9999"}})
    assert (refused.json()["code"], refused.json()["detail"]) == (raised.value.code, raised.value.message)
    assert "RTX-5090" in raised.value.where["nearest"]


@pytest.mark.parametrize(
    "command",
    ["vllm serve {} --max-model-len 131072", "llama-server -m {} -c 131072 -np 4", "vllm serve {} --bogus 1"],
)
def test_every_door_judges_a_command_the_same(doors: Doors, command: str) -> None:
    engine: EngineName = "llama-server" if command.startswith("llama") else "vllm"
    line = command.format(doors.source(engine))
    result = core.check(line)
    printed = doors.invoke("check", "--json", "--", *line.split())
    assert jsonio.from_data(CheckResult, json.loads(printed.out)) == core.check(line.split())
    answer = doors.http.client.post("/v1/check", json={"command": line})
    assert jsonio.from_data(CheckResult, answer.json()) == result


@pytest.mark.parametrize("engine", served_engines())
@pytest.mark.parametrize(("settings", "options", "words"), MEASURED)
def test_every_door_measures_the_same(
    doors: Doors,
    engine: EngineName,
    settings: MeasureSettings,
    options: ServerOptions,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The engine and the cut that were chosen, on idle cores, with the same prompts."""
    runs: list[dict[str, Any]] = []

    def run(inspection: Any, **given: Any) -> Measurement:
        kept = ("model", "build", "context_len", "arms", "settings", "resume")
        runs.append({"of": inspection, **{name: given[name] for name in kept}, "store": given["store"].path})
        return records.smollm2_measurement()

    monkeypatch.setattr("ropewalk.measuring.measure.run_measurement", run)
    monkeypatch.setattr(
        "ropewalk.serving.engines.pick_engine",
        lambda engine, path=None: EngineBuild(engine, engine, "1", path or engine),
    )
    patch_core(monkeypatch, "idle_threads", lambda: 1)
    source = doors.source(engine)
    request = RunRequest(8192, ("shipped", "yarn:2"), engine, settings=replace(settings, plan=options))
    core.measure(source, request)
    doors.invoke(
        *("measure", source, "--context", "8k", "--arm", "shipped", "--arm", "yarn:2", "--engine", engine),
        *words,
    )
    worker._measure(MeasureOrder(source, request, str(doors.store)), StringIO())
    doors.backend.stored.measure(doors.backend.open(source), request, Control(lambda event: None))
    assert len(runs) == 4
    assert runs[0]["settings"].threads == 1
    assert all(one == runs[0] for one in runs[1:])


def test_a_folder_that_holds_a_gguf_is_served_by_its_file_at_every_door(doors: Doors) -> None:
    folder = str(doors.models / "folder")
    plans = [
        core.plan(folder, context_len=4096),
        jsonio.from_data(Plan, json.loads(doors.invoke("plan", folder, "--context", "4k", "--json").out)),
        jsonio.from_data(
            Plan,
            doors.http.client.post(
                "/v1/plan", json={"checkpoint": folder, "request": {"context_len": 4096}}
            ).json(),
        ),
        doors.backend.plan(doors.backend.open(folder), PlanRequest(4096, "llama-server")),
    ]
    for plan in plans:
        assert plan.launch is not None
        assert f"{folder}/model.gguf" in plan.launch.argv


def test_the_stand_ins_of_the_application_answer_to_the_same_calls() -> None:
    """A stand-in that takes other arguments than what it stands for would hide that the two have drifted."""
    for fake, real in ((FakeBackend, Backend), (FakeStored, Stored), (FakeServing, Serving)):
        for name, method in vars(fake).items():
            if inspect.isfunction(method) and name in vars(real) and name != "__init__":
                assert taken(method) == taken(getattr(real, name)), (fake, name)


def taken(function: Any) -> list[tuple[str, object, object]]:
    """The parameters of a function: name, kind and default."""
    return [(one.name, one.kind, one.default) for one in inspect.signature(function).parameters.values()]
