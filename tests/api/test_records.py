"""What is read over HTTP is what the core says: the same records, to the last field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.api.conftest import Served, made_settings, served
from tests.cli import records

from ropewalk import core, jsonio
from ropewalk.checking.records import CheckResult
from ropewalk.inspector.records import Inspection
from ropewalk.measuring.store import RunStore
from ropewalk.planner.options import PlanOptions
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.planner.rope.table import RopeTable
from ropewalk.units import GIB

REQUEST: PlanOptions = {"context_len": 131072, "engine": "vllm", "memory_bytes": 48 * GIB}


def model(service: Served) -> str:
    return str(service.settings.models_dirs[0].resolve() / "Qwen3-8B")


def post(service: Served, path: str, body: Any) -> Any:
    response = service.client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


def test_inspect_by_a_name_in_the_folder_or_by_its_path(service: Served) -> None:
    expected = jsonio.to_data(core.inspect(model(service)))
    assert service.get("/v1/inspect", checkpoint="Qwen3-8B") == expected
    assert service.get("/v1/inspect", checkpoint=model(service)) == expected
    assert jsonio.from_data(Inspection, expected).value("native_context") == 32768


def test_plan(service: Served) -> None:
    data = post(service, "/v1/plan", {"checkpoint": "Qwen3-8B", "request": REQUEST})
    plan = jsonio.from_data(Plan, data)
    assert plan == core.plan(model(service), **REQUEST)
    assert (plan.rope.factor, plan.fit.fits, plan.schema) == (4.0, True, "ropewalk.plan/1")
    # What a plan was made from can be asked again as it stands.
    again = post(service, "/v1/plan", {"checkpoint": data["checkpoint"], "request": data["request"]})
    assert again["memory"] == data["memory"]


def test_a_choice_stays_inside_the_folders(service: Served, tmp_path: Path) -> None:
    """A folder stands for what is below it; a link that leads out of the folders is not read."""
    models = service.settings.models_dirs[0]
    data = post(service, "/v1/choose", {"checkpoints": ["."], "context_len": 4096, "request": {"gpu": "L4"}})
    assert {Path(option["checkpoint"]).name for option in data["options"]} == {"Qwen3-8B"}
    outside = tmp_path / "outside.gguf"
    outside.write_bytes(b"GGUF")
    (models / "link.gguf").symlink_to(outside)
    try:
        body = {"checkpoints": ["."], "context_len": 4096, "request": {"gpu": "L4"}}
        assert [one["code"] for one in post(service, "/v1/choose", body)["findings"]] == ["path_not_allowed"]
    finally:
        (models / "link.gguf").unlink()
    for names, code in ((["/etc"], "path_not_allowed"), (["Qwen3-8B"] * 21, "usage"), ([], "usage")):
        answer = service.client.post("/v1/choose", json={"checkpoints": names, "context_len": 4096})
        assert answer.json()["code"] == code


def test_what_a_plan_names_beside_the_checkpoint_is_in_the_folders_too(service: Served) -> None:
    request = {**REQUEST, "draft": "Qwen3-8B"}
    data = post(service, "/v1/plan", {"checkpoint": "Qwen3-8B", "request": request})
    assert data["request"]["draft"] == model(service)
    for name in ("draft", "projector"):
        refused = service.client.post(
            "/v1/plan", json={"checkpoint": "Qwen3-8B", "request": {**REQUEST, name: "/etc/passwd"}}
        )
        assert (refused.status_code, refused.json()["code"]) == (403, "path_not_allowed")


def test_that_it_does_not_fit_is_an_answer(service: Served) -> None:
    data = post(
        service, "/v1/plan", {"checkpoint": "Qwen3-8B", "request": {**REQUEST, "memory_bytes": 8 * GIB}}
    )
    assert data["fit"]["fits"] is False
    assert "does_not_fit" in [finding["code"] for finding in data["findings"]]


def test_rope(service: Served) -> None:
    data = service.get("/v1/rope", checkpoint="Qwen3-8B", context_len=131072)
    table = jsonio.from_data(RopeTable, data)
    assert table == core.rope(model(service), context_len=131072)
    assert (table.decision.factor, len(table.pairs)) == (4.0, 64)
    assert service.get("/v1/rope", checkpoint="Qwen3-8B", engine="llama-server")["context_len"] == 32768


def test_tensors_that_match(tmp_path: Path) -> None:
    header = {
        "a.0.weight": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]},
        "b.weight": {"dtype": "F32", "shape": [], "data_offsets": [12, 16]},
    }
    raw = json.dumps(header).encode()
    settings = made_settings(tmp_path)
    file = settings.models_dirs[0] / "small.safetensors"
    file.write_bytes(len(raw).to_bytes(8, "little") + raw + bytes(16))
    with served(settings) as service:
        data = service.get("/v1/tensors", checkpoint="small.safetensors", match="a.*")
        everything = service.get("/v1/tensors", checkpoint="small.safetensors")
    assert (data["num_tensors"], data["tensor_bytes"], data["schema"]) == (1, 12, "ropewalk.tensors/1")
    assert data["tensors"][0]["shape"] == [2, 3]
    assert [tensor["name"] for tensor in everything["tensors"]] == ["a.0.weight", "b.weight"]


@pytest.mark.parametrize("as_words", [True, False])
def test_check_reads_the_model_of_a_command_only_where_it_may(service: Served, as_words: bool) -> None:
    words = ["vllm", "serve", model(service), "--max-model-len", "131072"]
    data = post(service, "/v1/check", {"command": words if as_words else " ".join(words)})
    result = jsonio.from_data(CheckResult, data)
    assert result == core.check(words)
    assert result.resolved.trained_context == 40960
    outside = post(service, "/v1/check", {"command": f"vllm serve {Path(__file__).parent}"})
    assert [finding["code"] for finding in outside["findings"]] == ["checkpoint_not_read"]
    named = {"command": "vllm serve Qwen/Qwen3-8B --max-model-len 131072", "checkpoint": "Qwen3-8B"}
    assert post(service, "/v1/check", named)["resolved"]["trained_context"] == 40960


def test_runs(tmp_path: Path) -> None:
    settings = made_settings(tmp_path)
    run = records.smollm2_measurement()
    with RunStore(settings.store) as store:
        store.create(run)
        for position, arm in enumerate(run.arms):
            store.save_arm(run.run_id, arm, position=position)
        expected = jsonio.to_data(store.load(run.run_id))
    with served(settings) as service:
        assert [one["run_id"] for one in service.get("/v1/runs")["runs"]] == [run.run_id]
        assert service.get(f"/v1/runs/{run.run_id}") == expected
        assert service.get("/v1/runs/2026") == expected
        page = service.client.get(f"/v1/runs/{run.run_id}/report")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "Recall of SmolLM2" in page.text
        stream = service.client.get(f"/v1/runs/{run.run_id}/events")
        assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.text.startswith('id: 1\nevent: run_ended\ndata: {"measurement": {"run_id": "20261130')
        missing = service.client.get("/v1/runs/nothing")
        assert (missing.status_code, missing.json()["code"]) == (404, "run_not_found")


def test_a_store_that_cannot_be_read_is_no_fault_of_the_client(tmp_path: Path) -> None:
    settings = made_settings(tmp_path)
    settings.store.parent.mkdir()
    settings.store.write_bytes(b"no database at all, but long enough to be looked at")
    with served(settings) as service:
        for path in ("/v1/runs", "/v1/runs/2026", "/v1/runs/2026/report", "/v1/runs/2026/events"):
            json_response = service.client.get(path)
            assert json_response.status_code == 503
            assert json_response.headers["content-type"] == "application/problem+json"
            problem = json_response.json()
            assert (problem["status"], problem["code"]) == (503, "run_store")
            assert problem["where"]["store"] == str(settings.store)


def test_every_field_of_a_request_is_there_and_no_other(service: Served) -> None:
    schemas = service.get("/openapi.json")["components"]["schemas"]
    asked = schemas["PlanOptions-Input"]
    assert set(asked["properties"]) == set(PlanRequest.__dataclass_fields__)
    assert asked["required"] == ["context_len"]
    assert asked["additionalProperties"] is False
