"""The devices of a plan on its page: bars by node, folds, tables, and the same in a notebook."""

from __future__ import annotations

from typing import Any

import pytest
from tests.planner.models import attention, inspection, llama_8b, smollm2
from tests.report.render import check_page, render

from ropewalk.engines import EngineBuild, EngineName
from ropewalk.inspector.records import Inspection
from ropewalk.planner.machine import Machine
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.report.notebook import record_html
from ropewalk.report.plan import plan_page
from ropewalk.report.ranks import fold, rank_grid
from ropewalk.serving.engines import with_launch
from ropewalk.units import GIB, MIB


def plan(model: Inspection, context_len: int, engine: EngineName = "vllm", **options: Any) -> Plan:
    request = PlanRequest(context_len, engine, **{"arm": "shipped", **options})
    return make_plan(model, request, machine=Machine(kind="gpu" if engine == "vllm" else "cpu"))


def two_nodes() -> Plan:
    """Eight shards on each of two nodes of unlike memory."""
    return plan(
        llama_8b(), 131_072, tensor_parallel=8, pipeline_parallel=2, nodes=2,
        node_memory_bytes=(24 * GIB, 12 * GIB), link_speed=(450 * 10**9, 50 * 10**9),
    )  # fmt: skip


def test_pages_of_several_devices() -> None:
    check_page("plan-nodes", plan_page(two_nodes()))
    servers = plan(
        smollm2(), 4096, "llama-server", memory_bytes=256 * MIB, tensor_split=(3.0, 1.0),
        rpc_servers=("10.0.0.2:50052", "10.0.0.3:50052"),
    )  # fmt: skip
    check_page("plan-rpc", plan_page(servers))
    searched = plan(llama_8b(), 131_072, num_sequences=4, memory_bytes=24 * GIB, gpus_per_node=2, fit="nodes")
    check_page("plan-search", plan_page(searched))


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_cells_flow_and_stay_within_the_page(width: int) -> None:
    found = plan(llama_8b(), 8192, pipeline_parallel=32, nodes=2, memory_bytes=24 * GIB)
    lines = render(rank_grid(found), width).splitlines()
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("node 0  gpu:0 ")
    assert sum(line.startswith("node ") for line in lines) == 2


def test_ranks_that_hold_alike_are_folded() -> None:
    names = [each.name for each in fold(two_nodes().memory.per_device)]
    assert names == ["gpu:0–7", "gpu:8–15"]
    alone = plan(llama_8b(), 8192, tensor_parallel=4, nodes=2)
    assert [each.name for each in fold(alone.memory.per_device)] == ["gpu:0–1", "gpu:2–3"]


def test_ranks_with_other_experts_are_not() -> None:
    """Ten experts on four ranks: three, three, two and two."""
    model = inspection(
        (attention(range(4), kv=4, dim=16, heads=4),),
        hidden=64, inner=64, vocab=64, heads=4, num_experts=10, num_experts_per_tok=2,
    )  # fmt: skip
    found = plan(model, 1024, tensor_parallel=4, expert_parallel=True)
    assert [each.name for each in fold(found.memory.per_device)] == ["gpu:0–1", "gpu:2–3"]
    assert "3 exp" in render(plan_page(found))


def test_only_the_tightest_is_marked() -> None:
    text = render(rank_grid(two_nodes()))
    first, second, legend = text.splitlines()
    assert not first.endswith("◀")
    assert second.endswith("◀")
    assert legend.endswith("◀ the tightest")


def test_a_bar_ends_where_the_budget_does() -> None:
    """Half of the larger node's memory is the smaller one's: its row of cells is half as long."""
    first, second, _ = render(rank_grid(two_nodes())).splitlines()
    assert len(first.split()[-1]) == 12
    assert len(second.split()[-2]) == 6


def test_the_same_in_a_notebook() -> None:
    html = record_html(two_nodes())
    assert "gpu:8–15" in html
    assert "█" in html


def test_the_budget_names_both_kinds_of_devices() -> None:
    assert "on 8 devices of 24.00 GiB and 8 of 12.00 GiB" in render(plan_page(two_nodes()), 120)


def test_each_machines_command() -> None:
    """Four nodes: two commands as they are, the rest by name; comments, so that all can be pasted."""
    build = EngineBuild("vllm", "vllm", "0.33.0", "vllm")
    four = plan(llama_8b(), 8192, tensor_parallel=4, nodes=4)
    lines = render(plan_page(with_launch(four, build=build)), 120).splitlines()
    at = lines.index("# on NODE0")
    assert lines[at + 1].startswith("VLLM_HOST_IP=NODE0 vllm serve ")
    assert lines.index("# on NODE1") > at
    assert any("--node-rank 1" in line for line in lines)
    assert not any("--node-rank 2" in line for line in lines)
    options = next(number for number, line in enumerate(lines) if line.startswith("options "))
    assert lines[options - 1].startswith("# and on NODE2, NODE3 with their own address and --node-rank")
