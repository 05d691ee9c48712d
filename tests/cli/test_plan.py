"""``plan``: options to the planner's names, units, verdict to exit status."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest
from tests.cli import records
from tests.cli.conftest import Calls, Invoke

from ropewalk import core
from ropewalk.cli.params import plan_options, server_options_of
from ropewalk.errors import UsageError
from ropewalk.planner.records import Plan, PlanRequest


def test_only_what_was_given_reaches_the_planner(planned: Calls, invoke: Invoke) -> None:
    assert invoke("plan", "Qwen3-8B", "--context", "128k").status == 0
    assert planned.seen == [
        {"source": "Qwen3-8B", "context_len": 131072, "engine_path": None, "confirm": False}
    ]


def test_options_arrive_under_the_names_of_the_request(planned: Calls, invoke: Invoke) -> None:
    invoke(
        *("plan", "m", "--context", "1M", "--engine", "llama-server", "--sequences", "4"),
        *("--memory", "24GB", "--cache-type", "q8_0", "--no-kv-unified", "--swa-full", "--ubatch", "256"),
        *(
            "--tensor-parallel",
            "2",
            "--allow-unvalidated",
            "--arm",
            "yarn:2",
            "--flash-attn",
            "on",
            "--draft",
            "small.gguf",
            "--projector",
            "mmproj.gguf",
            "--confirm",
        ),
    )
    assert planned.seen == [
        {
            "source": "m",
            "context_len": 1048576,
            "engine_path": None,
            "confirm": True,
            "engine": "llama-server",
            "num_sequences": 4,
            "memory_bytes": 24_000_000_000,
            "cache_type_k": "q8_0",
            "cache_type_v": "q8_0",
            "kv_unified": False,
            "swa_full": True,
            "ubatch": 256,
            "tensor_parallel": 2,
            "allow_unvalidated": True,
            "arm": "yarn:2",
            "flash_attn": "on",
            "draft": "small.gguf",
            "projector": "mmproj.gguf",
        }
    ]


def test_every_option_has_a_field_of_the_request() -> None:
    def command() -> None: ...

    names = {param.name for param in plan_options(command).__click_params__}  # type: ignore[attr-defined]
    assert names - {"cache_type"} <= {field.name for field in fields(PlanRequest)}


def test_options_of_several_devices(planned: Calls, invoke: Invoke) -> None:
    invoke(
        *("plan", "m", "--context", "4k", "--nodes", "2", "--gpus-per-node", "8", "--data-parallel", "2"),
        *("--expert-parallel", "--decode-context-parallel", "2", "--layer-partition", "20,10"),
        *("--memory", "80GiB,24GiB", "--tensor-split", "3,1", "--rpc", "a:1,b:2", "--block-size", "32"),
        *("--link-speed", "h100-sxm"),
    )
    assert planned.seen == [
        {
            "source": "m",
            "context_len": 4096,
            "engine_path": None,
            "confirm": False,
            "nodes": 2,
            "gpus_per_node": 8,
            "data_parallel": 2,
            "expert_parallel": True,
            "decode_context_parallel": 2,
            "layer_partition": (20, 10),
            "node_memory_bytes": (80 * 2**30, 24 * 2**30),
            "tensor_split": (3.0, 1.0),
            "rpc_servers": ("a:1", "b:2"),
            "block_size": 32,
            "link_speed": (450_000_000_000, 50_000_000_000),
        }
    ]


@pytest.mark.parametrize(
    ("given", "speeds"),
    [("25GB", (25_000_000_000,)), ("900GB,12500000000", (900_000_000_000, 12_500_000_000))],
)
def test_link_speeds(planned: Calls, invoke: Invoke, given: str, speeds: tuple[int, ...]) -> None:
    invoke("plan", "m", "--context", "4k", "--link-speed", given)
    assert planned.seen[0]["link_speed"] == speeds


def test_the_search_is_asked_for(planned: Calls, invoke: Invoke) -> None:
    invoke("plan", "m", "--context", "4k", "--fit", "nodes", "--memory", "24GiB", "--gpus-per-node", "8")
    assert planned.seen[0]["fit"] == "nodes"
    assert planned.seen[0]["memory_bytes"] == 24 * 2**30


def test_three_link_speeds_are_refused(planned: Calls, invoke: Invoke) -> None:
    result = invoke("plan", "m", "--context", "4k", "--link-speed", "1GB,2GB,3GB")
    assert result.status == 2
    assert "3 speeds: one inside a node, and one between nodes" in result.err


def test_one_cache_type_for_both_excludes_one_for_each() -> None:
    with pytest.raises(UsageError, match="--cache-type sets keys and values"):
        server_options_of({"cache_type": "q8_0", "cache_type_k": "f16"})


@pytest.mark.parametrize(
    ("plan", "status"),
    [
        (records.qwen3_plan(), 0),
        (records.no_budget(), 0),
        (records.too_large(), 1),
        (records.refused(), 1),
    ],
)
def test_the_exit_status_is_the_verdict(
    plan: Plan, status: int, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "plan", lambda source, **options: plan)
    assert invoke("plan", "m", "--context", "128k").status == status
    record = invoke("plan", "m", "--context", "131072", "--json")
    assert record.status == status
    assert json.loads(record.out)["schema"] == "ropewalk.plan/1"


TAKEN = "--engine vllm: not given; the first that serves safetensors (others that read it: transformers)\n"


def test_what_a_unit_came_to_is_echoed_beside_the_document(planned: Calls, invoke: Invoke) -> None:
    outcome = invoke("plan", "m", "--json", "--context", "128k", "--memory", "24GB")
    assert outcome.err.splitlines() == [
        "--context 128k = 131,072 tokens",
        "--memory 24GB = 24,000,000,000 bytes",
        TAKEN.strip(),
    ]
    json.loads(outcome.out)
    assert invoke("plan", "m", "--context", "128k").err == TAKEN


def test_an_engine_that_was_named_needs_no_reason(planned: Calls, invoke: Invoke) -> None:
    assert invoke("plan", "m", "--context", "128k", "--engine", "vllm").err == ""


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "Missing option '--context'"),
        (("--context", "0"), "'0' is not a positive whole token count"),
        (("--context", "-4k"), "'-4k' is not a token count"),
        (("--context", "12GiB"), "'12GiB' is not a token count"),
        (("--context", "4k", "--memory", "24X"), "'24X' is not a size"),
        (("--context", "4k", "--sequences", "0"), "--sequences"),
        (("--context", "4k", "--engine", "tgi"), "'tgi' is not one of"),
    ],
)
def test_wrong_values_name_the_option(
    arguments: tuple[str, ...], complaint: str, planned: Calls, invoke: Invoke
) -> None:
    outcome = invoke("plan", "m", *arguments)
    assert outcome.status == 2
    assert complaint in outcome.err
    assert planned.seen == []


def test_addresses_of_several_machines_are_given_on(planned: Calls, invoke: Invoke) -> None:
    invoke("plan", "m", "--context", "128k", "--node-addresses", "10.0.0.1, 10.0.0.2")
    assert planned.seen[-1]["node_addresses"] == ("10.0.0.1", "10.0.0.2")
