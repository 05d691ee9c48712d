"""Keywords are the fields of the records: one that is added to a request is there at every door."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, get_type_hints

import pytest

import ropewalk
from ropewalk.engines import served_engines
from ropewalk.measuring.settings import MeasureOptions, MeasureSettings, RunRequest
from ropewalk.planner.options import PlanOptions, ServerOptions, server_options
from ropewalk.planner.records import PlanRequest

WRONG: Any = PlanRequest("8k", "vllm")  # type: ignore[arg-type]
api: Any = ropewalk  # as somebody without a type checker sees it
ANY = "no file is read for a wrong argument"


def hints(*records: type[Any]) -> dict[str, Any]:
    return {name: kind for record in records for name, kind in get_type_hints(record).items()}


def test_the_keywords_of_a_plan_are_the_fields_of_its_request() -> None:
    asked = hints(PlanRequest)
    assert set(hints(ServerOptions)) == set(asked) - {"context_len", "engine", "arm"}
    keywords = hints(PlanOptions)
    assert {name: keywords[name] for name in asked if name != "engine"} == {
        name: kind for name, kind in asked.items() if name != "engine"
    }
    assert set(keywords) == set(asked)


def test_the_keywords_of_a_measurement_are_the_fields_of_its_records() -> None:
    asked = hints(RunRequest, MeasureSettings)
    del asked["settings"]
    keywords = hints(MeasureOptions)
    assert set(keywords) == set(asked)
    assert {name: keywords[name] for name in asked if name != "on"} == {
        name: kind for name, kind in asked.items() if name != "on"
    }


def test_the_options_of_a_request_make_it_again() -> None:
    request = PlanRequest(4096, "vllm", cache_type_k="fp8", tensor_parallel=2, arm="yarn:2")
    assert server_options(request) == {"cache_type_k": "fp8", "tensor_parallel": 2}


@pytest.mark.parametrize("field", [field.name for field in fields(PlanRequest)])
def test_a_value_of_another_type_names_its_field(field: str) -> None:
    given: dict[str, Any] = {"context_len": 4096, field: object()}
    with pytest.raises(ropewalk.UsageError) as raised:
        ropewalk.plan(ANY, **given)
    assert raised.value.where["field"] == field
    assert raised.value.message.startswith(f"{field} must be ")


@pytest.mark.parametrize("field", list(hints(MeasureOptions)))
def test_a_setting_of_another_type_names_its_field(field: str) -> None:
    given: dict[str, Any] = {"context_len": 4096, field: object()}
    with pytest.raises(ropewalk.UsageError) as raised:
        ropewalk.measure(ANY, **given)
    assert raised.value.where["field"] == field


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: api.plan(ANY, context_len="128k"), "context_len must be a whole number, not '128k'"),
        (lambda: api.plan(ANY, context_len=True), "context_len must be a whole number, not True"),
        (lambda: api.plan(ANY, context_len=8, engine="vlm"), "did you mean 'vllm'?"),
        (lambda: api.plan(ANY, context_len=8, memory=1), "there is no option 'memory'"),
        (lambda: api.plan(ANY, context_len=8, cache_types="q8_0"), "did you mean 'cache_type_v'?"),
        (lambda: api.plan(ANY), "context_len is needed"),
        (lambda: api.plan(ANY, {"context_len": 8}), "request must be a PlanRequest"),
        (lambda: api.plan(ANY, PlanRequest(8, "vllm"), num_sequences=2), "has num_sequences of its own"),
        (
            lambda: api.plan(ANY, WRONG),
            "context_len must be a whole number",
        ),
        (lambda: api.plan(17, context_len=8), "source must be text or a PathLike"),
        (lambda: api.inspect(17), "source must be text or a PathLike"),
        (lambda: api.inspect(), "missing 1 required positional argument: 'source'"),
        (lambda: api.check("vllm serve m", chekpoint="m"), "did you mean 'checkpoint'?"),
        (lambda: api.check(17), "command must be a tuple"),
        (lambda: api.check("vllm serve m", engine_version=0.33), "engine_version must be text or None"),
        (lambda: api.serve(ANY, context_len=8, settings=3), "settings must be a ServeSettings or None"),
        (lambda: api.attend(ANY, prompt="a", layer="first"), "layer must be a whole number"),
        (lambda: api.measure(ANY, context_len=8, plan={"engine": "vllm"}), "no option 'engine'"),
        (lambda: api.measure(ANY, context_len=8, plan={"nodes": "two"}), "plan.nodes must be a whole"),
        (lambda: api.measure(ANY, context_len=8, trials=1.5), "trials must be a whole number"),
        (lambda: api.measure(ANY, context_len=8, minutes=float("nan")), "minutes must be a number"),
    ],
)
def test_a_wrong_argument_is_a_usage_error(call: Any, message: str) -> None:
    with pytest.raises(ropewalk.UsageError) as raised:
        call()
    assert message in raised.value.message
    raised.value.record()


def test_lists_are_taken_where_tuples_are_meant() -> None:
    with pytest.raises(ropewalk.CheckpointMissingError):
        api.measure(ANY, context_len=8, lengths=[64, 128], engine=served_engines()[0])
