"""A run leaves the machine's speed in the store; only a plan for just that service finds it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.measuring.test_measure import ARMS, BUILD, SMALL, Bench, bench, rotary_smollm2

from ropewalk.engines import EngineBuild
from ropewalk.inspector.records import CheckpointFile
from ropewalk.measuring.calibrate import find_calibration, machine_fingerprint
from ropewalk.measuring.store import RunStore
from ropewalk.planner.calibration import Calibration
from ropewalk.planner.records import PlanRequest
from ropewalk.serving.host.devices import Device, Hardware
from ropewalk.serving.host.probe import Host, plan_for_host

__all__ = ["bench"]  # the fixture
CPU = Device("cpu", "cpu", "a processor", 8 * 2**30, 4 * 2**30)
SINGLE_NODE = Host(BUILD, (CPU,))
REQUEST = PlanRequest(4096, "llama-server", device="cpu")


@pytest.fixture
def measured(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr("ropewalk.measuring.measure.host_for", lambda build: SINGLE_NODE)
    bench.measure(replace(SMALL, lengths=(400, 700, 1000)))
    return bench


def found(bench: Bench, request: PlanRequest = REQUEST, here: Host = SINGLE_NODE) -> Calibration | None:
    inspection = rotary_smollm2()
    summary = replace(inspection.checkpoint, source=str(bench.model))
    return find_calibration(replace(inspection, checkpoint=summary), request, here, store=bench.store.path)


def test_a_plan_of_the_same_service_is_predicted(measured: Bench) -> None:
    calibration = found(measured)
    assert calibration is not None
    run = measured.store.runs()[0]
    # Two arms at three lengths, the unscaled one at the longest only: one whole prompt each.
    assert calibration.source == f"run {run.run_id}, 7 prompts of 400 to 1,000 tokens"
    assert calibration.longest_len == 1000
    plan = plan_for_host(rotary_smollm2(), REQUEST, SINGLE_NODE, calibration=calibration)
    assert plan.compute is not None
    speed = plan.compute.speed
    assert speed is not None
    assert speed.basis == "calibrated"
    assert speed.prefill_seconds is not None
    assert speed.prefill_seconds == pytest.approx(4.096, rel=0.05)  # the fake server takes 1 ms per token
    assert speed.prefill_seconds_low is not None
    assert speed.prefill_seconds_high is not None
    assert speed.prefill_seconds_low <= speed.prefill_seconds <= speed.prefill_seconds_high


@pytest.mark.parametrize(
    ("request_", "here"),
    [
        (replace(REQUEST, rpc_servers=("10.0.0.2:50052",)), SINGLE_NODE),
        (replace(REQUEST, tensor_split=(3.0, 1.0)), SINGLE_NODE),
        (replace(REQUEST, cache_type_k="q8_0"), SINGLE_NODE),
        (replace(REQUEST, engine_version="b9999"), SINGLE_NODE),
        (replace(REQUEST, memory_bytes=64 * 2**30), SINGLE_NODE),  # planned for another machine
        (REQUEST, Host(EngineBuild("llama-server", "llama-server", "b9999", "llama-server"), (CPU,))),
        (REQUEST, Host(None, (CPU,))),
    ],
)
def test_any_other_service_is_not(measured: Bench, request_: PlanRequest, here: Host) -> None:
    assert found(measured, request_, here) is None


def test_other_weights_are_not(measured: Bench) -> None:
    inspection = rotary_smollm2()
    files = (CheckpointFile("other.gguf", 1),)
    other = replace(
        inspection, checkpoint=replace(inspection.checkpoint, source=str(measured.model), files=files)
    )
    assert find_calibration(other, REQUEST, SINGLE_NODE, store=measured.store.path) is None


def test_a_speed_measured_with_fewer_threads_is_of_another_service(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ropewalk.measuring.measure.host_for", lambda build: SINGLE_NODE)
    bench.measure(replace(SMALL, lengths=(400, 700, 1000), threads=1), arms=ARMS[:1])
    assert bench.store.has_calibrations()
    assert found(bench) is None


def test_each_cache_type_has_a_speed_of_its_own(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ropewalk.measuring.measure.host_for", lambda build: SINGLE_NODE)
    bench.measure(replace(SMALL, lengths=(400, 700)), arms=("shipped", "shipped+q8_0"))
    for types in ("auto", "q8_0"):
        calibration = found(bench, replace(REQUEST, cache_type_k=types, cache_type_v=types))
        assert calibration is not None
        assert "2 prompts of 400 to 700 tokens" in calibration.source


def test_a_forgotten_run_calibrates_nothing(measured: Bench) -> None:
    measured.store.delete(measured.store.runs()[0].run_id)
    assert found(measured) is None


def test_one_length_calibrates_nothing(bench: Bench) -> None:
    bench.measure(replace(SMALL, lengths=(400,)), arms=ARMS[:1])
    assert not bench.store.has_calibrations()


def test_no_store_and_a_damaged_one_leave_a_plan_without(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    assert find_calibration(rotary_smollm2(), REQUEST, SINGLE_NODE, store=path) is None
    assert not path.exists()  # a plan makes no store
    path.write_bytes(b"no store at all" * 100)
    assert find_calibration(rotary_smollm2(), REQUEST, SINGLE_NODE, store=path) is None


def test_a_store_of_the_first_version_gains_its_table(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    with RunStore(path) as store:
        store._db.execute("DROP TABLE calibrations")
        store._db.execute("DROP TABLE losses")
        store._db.execute("ALTER TABLE runs DROP COLUMN owner")
        store._db.execute("PRAGMA user_version = 1")
    with RunStore(path) as store:
        assert not store.has_calibrations()


def test_a_machine_is_what_computes_and_not_what_it_runs() -> None:
    machine = Hardware("Linux 6.1", "a processor", 2, 8 * 2**30)
    same = replace(machine, platform="Linux 6.9", memory_bytes=4 * 2**30)
    assert machine_fingerprint(machine) == machine_fingerprint(same)
    assert machine_fingerprint(machine) != machine_fingerprint(replace(machine, cores=4))
