"""Two checkpoints, plans, runs or logs side by side: what differs, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli import records
from tests.cli.conftest import Invoke, invoke
from tests.inspector.readers.files import GgufWriter
from tests.planner.models import llama_8b
from tests.report.render import render

from ropewalk import core, jsonio
from ropewalk.differences import Difference
from ropewalk.errors import UsageError
from ropewalk.measuring.store import RunStore
from ropewalk.planner.machine import Machine
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.report.differences import differences_page

__all__ = ["invoke"]
LOG = """\
0.00.000.001 I build: 11434 (0123456) with gcc
0.00.000.002 I llama_model_loader: loaded meta data with 30 key-value pairs and 291 tensors from m.gguf
load_tensors:   CPU_Mapped model buffer size =  4685.30 MiB
llama_context: n_seq_max  = 1
llama_context: n_ctx      = 8192
llama_context: n_ctx_seq  = 8192
llama_kv_cache:        CPU KV buffer size =  1024.00 MiB
"""


def gguf(path: Path, dtype: str, *, name: str = "made", norm: str = "F32") -> Path:
    writer = GgufWriter()
    writer.key("general.architecture", "string", "llama")
    writer.key("general.name", "string", name)
    for key, value in (("block_count", 2), ("embedding_length", 256), ("context_length", 4096)):
        writer.key(f"llama.{key}", "uint32", value)
    writer.tensor("token_embd.weight", "Q8_0", (512, 256))
    for block in range(2):
        writer.tensor(f"blk.{block}.attn_q.weight", dtype, (256, 256))
        writer.tensor(f"blk.{block}.attn_norm.weight", norm, (256,))
    return writer.write(path)


def test_a_requantisation_and_its_source(tmp_path: Path) -> None:
    found = core.compare(gguf(tmp_path / "a.gguf", "F16"), gguf(tmp_path / "b.gguf", "Q4_K"))
    tensors = [one for one in found.differences if one.section == "tensors"]
    assert tensors == [
        Difference("tensors", "blk.*.attn_q.weight", "F16 256x256", "Q4_K 256x256", 2),
    ]
    sizes = {one.name: (one.a, one.b) for one in found.differences if one.section == "checkpoint"}
    assert sizes["tensor_bytes"][0] - sizes["tensor_bytes"][1] == 2 * 256 * 256 * (16 - 4.5) / 8
    assert "llama.block_count" not in {one.name for one in found.differences}
    assert "blk.*.attn_q.weight  x 2" in render(differences_page(found), 120)


def test_what_is_the_same_is_counted_and_the_values_are_not_claimed(tmp_path: Path) -> None:
    found = core.compare(gguf(tmp_path / "a.gguf", "F16"), gguf(tmp_path / "b.gguf", "F16"))
    assert found.positive
    assert [one.code for one in found.findings] == ["values_not_compared"]


def plan_file(path: Path, plan: Plan) -> Path:
    path.write_text(jsonio.dumps(plan))
    return path


def plan(context_len: int = 8192, cache_type: str = "f16") -> Plan:
    request = PlanRequest(context_len, "llama-server", cache_type_k=cache_type, cache_type_v=cache_type)
    return make_plan(llama_8b(), request, machine=Machine(kind="cpu"))


def test_two_plans_differ_in_what_follows_from_the_cache_type(tmp_path: Path) -> None:
    first = plan_file(tmp_path / "a.json", plan())
    other = plan_file(tmp_path / "b.json", plan(cache_type="q8_0"))
    found = {(one.section, one.name): (one.a, one.b) for one in core.compare(first, other).differences}
    assert found["request", "cache_type_k"] == ("f16", "q8_0")
    kv = 8192 * 131_072
    assert found["memory", "kv_cache"] == (
        {"low": kv, "high": kv},
        {"low": kv * 34 // 64, "high": kv * 34 // 64},
    )
    assert ("memory", "weights") not in found
    assert not [name for section, name in found if section == "rope"]


def test_a_plan_and_a_log_in_what_both_tell(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(LOG)
    same = core.compare(plan_file(tmp_path / "a.json", plan()), log)
    assert {(one.section, one.name) for one in same.differences} <= {("memory", "weights")}
    longer = core.compare(plan_file(tmp_path / "b.json", plan(16_384)), log)
    found = {(one.section, one.name): (one.a, one.b) for one in longer.differences}
    assert found["lengths", "context_per_request"] == (16_384, 8192)
    assert ("memory", "kv_cache") in found


def test_two_runs_of_the_store(tmp_path: Path) -> None:
    store = tmp_path / "runs.sqlite3"
    run = records.smollm2_measurement()
    with RunStore(store) as runs:
        runs.create(run)
    found = core.compare(run.run_id, run.run_id, store=store)
    assert found.positive
    assert (found.a.kind, found.same > 3) == ("run", True)


def test_what_cannot_be_compared(tmp_path: Path, invoke: Invoke) -> None:
    record = plan_file(tmp_path / "a.json", plan())
    with pytest.raises(UsageError, match="a checkpoint is compared with a checkpoint"):
        core.compare(record, gguf(tmp_path / "a.gguf", "F16"))
    (tmp_path / "b.json").write_text('{"schema": "ropewalk.plan/1"}')
    outcome = invoke("compare", str(record), str(tmp_path / "b.json"))
    assert outcome.status == 2
    assert "is no ropewalk.plan/1" in outcome.err
    assert invoke("compare", str(record), str(tmp_path / "none")).status == 3
    assert invoke("compare", str(record), str(record)).status == 0
