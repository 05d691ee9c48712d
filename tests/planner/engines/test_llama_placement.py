"""Where llama.cpp puts tensors: made files, the buffers that public logs print, and the search."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.serving.dry_run.models import FAMILIES

from ropewalk.errors import UsageError
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.inspector.records import Inspection
from ropewalk.planner.machine import Machine
from ropewalk.planner.plan import make_plan
from ropewalk.planner.records import Plan, PlanRequest
from ropewalk.units import GIB, MIB

GPU = Machine(kind="gpu")


def read(path: Path) -> Inspection:
    return inspect_checkpoint(open_checkpoint(str(path)))


def plan(model: Inspection, *, context_len: int = 2048, **options: Any) -> Plan:
    request = PlanRequest(context_len, "llama-server", device="cuda", **options)
    return make_plan(model, request, machine=GPU)


def weights(found: Plan) -> dict[str, float]:
    return {share.device: round(share.weights_bytes / MIB, 2) for share in found.memory.per_device}


@pytest.fixture(scope="module")
def moe(tmp_path_factory: pytest.TempPathFactory) -> Inspection:
    """Two blocks of experts: 16 of width 256, 3 matrices of 2,228,224 bytes (Q8_0) in each."""
    return read(FAMILIES["qwen3moe"](tmp_path_factory.mktemp("moe") / "moe.gguf"))


@pytest.fixture(scope="session")
def replicas(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The published checkpoints as sparse files."""
    folder = tmp_path_factory.mktemp("replicas")
    subprocess.run(["tar", "-xJf", str(shared / "corpus" / "replicas.tar.xz"), "-C", str(folder)], check=True)
    return folder / "ck"


EXPERT_BYTES = 16 * 256 * 512 // 32 * 34


def host_bytes(found: Plan) -> int:
    return found.memory.per_device[-1].weights_bytes


def test_experts_of_the_first_blocks_stay_on_the_host(moe: Inspection) -> None:
    whole = host_bytes(plan(moe))
    assert host_bytes(plan(moe, n_cpu_moe=1)) - whole == 3 * EXPERT_BYTES
    assert host_bytes(plan(moe, n_cpu_moe=2)) - whole == 6 * EXPERT_BYTES
    assert host_bytes(plan(moe, cpu_moe=True)) == host_bytes(plan(moe, n_cpu_moe=99))


@pytest.mark.parametrize(
    ("rules", "matrices"),
    [
        ((r"\.ffn_up_exps=CPU",), 2),
        ((r"blk\.1\.ffn_(up|down)_exps=CPU",), 2),
        ((r"blk\.0\.ffn_up_exps=CUDA0", r"\.ffn_up_exps=CPU"), 1),
        ((r"ffn_gate_exps=CUDA_Host",), 2),
    ],
)
def test_the_first_rule_that_matches_counts(moe: Inspection, rules: tuple[str, ...], matrices: int) -> None:
    moved = host_bytes(plan(moe, override_tensor=rules)) - host_bytes(plan(moe))
    assert moved == matrices * EXPERT_BYTES


def test_a_rule_can_take_to_a_device_what_would_stay(moe: Inspection) -> None:
    found = plan(moe, gpu_layers=1, override_tensor=("exps=CUDA0",))
    assert host_bytes(plan(moe, gpu_layers=1)) - host_bytes(found) == 6 * EXPERT_BYTES


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"override_tensor": ("exps=CUDA7",)}, "no buffer 'CUDA7', but CPU, CUDA0"),
        ({"override_tensor": ("CPU",)}, "is not PATTERN=BUFFER"),
        ({"override_tensor": ("(=CPU",)}, "unterminated subpattern"),
        ({"split_mode": "row"}, "--split-mode row is gone"),
        ({"split_mode": "none", "main_gpu": 2}, "--main-gpu 2 is none of 1 devices"),
        ({"fit": "cpu_moe"}, "--gpu NAME or --memory SIZE"),
    ],
)
def test_what_is_no_placement(moe: Inspection, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        plan(moe, **options)


def test_rows_of_every_plain_matrix_are_cut(replicas: Path) -> None:
    """Until b9889: caches stay with the blocks, the table on the host."""
    model = read(replicas / "Qwen3-4B-Q4_K_M.gguf")
    cut = plan(model, gpus_per_node=2, split_mode="row", tensor_split=(3.0, 1.0), engine_version="9174")
    layers = plan(model, gpus_per_node=2, tensor_split=(3.0, 1.0), engine_version="9174")
    first, second, host = cut.memory.per_device
    assert first.weights_bytes + second.weights_bytes == pytest.approx(2375.91 * MIB, rel=0.001)
    assert first.weights_bytes / second.weights_bytes == pytest.approx(3, rel=0.2)
    assert [share.kv_bytes for share in cut.memory.per_device] == [
        share.kv_bytes for share in layers.memory.per_device
    ]
    assert host.weights_bytes == layers.memory.per_device[-1].weights_bytes


def test_tensor_mode_cuts_matrices_and_caches(replicas: Path) -> None:
    """What is not cut is on every device, and so is a compute buffer as large as one device's."""
    model = read(replicas / "Qwen3-32B-Q4_K_M.gguf")
    one = plan(model).memory.per_device[0]
    first, second, _ = plan(model, gpus_per_node=2, split_mode="tensor").memory.per_device
    assert first.weights_bytes == pytest.approx(second.weights_bytes, rel=0.001)
    assert 0 < 2 * first.weights_bytes - one.weights_bytes < 0.01 * one.weights_bytes
    assert first.kv_bytes == second.kv_bytes == one.kv_bytes // 2
    buffer, whole = (
        next(term.bytes for term in share.terms or () if term.name == "compute_buffer")
        for share in (first, one)
    )
    assert buffer == whole
    assert plan(model, gpus_per_node=3, split_mode="tensor").memory.per_device[0].kv_bytes < first.kv_bytes


def test_one_device_of_several(moe: Inspection) -> None:
    found = plan(moe, gpus_per_node=2, split_mode="none", main_gpu=1)
    assert [share.device for share in found.memory.per_device] == ["gpu:1", "cpu"]


# MiB that public logs print, ground_truth/published2.json: gt903, gt908, gt914, gt916, gt917, gt922, gt923;
# the rest as the engine itself says of the same file with a made device of CUDA's rules (b11549).
PRINTED: list[tuple[str, dict[str, Any], dict[str, float]]] = [
    ("Qwen3.6-27B-Q4.gguf", {}, {"cpu": 682.03}),
    ("Qwen3.6-27B-MTP-Q4.gguf", {}, {"gpu:0": 14067.38, "cpu": 682.03}),
    ("Qwen3.6-27B-MTP-Q4.gguf", {"gpu_layers": 40}, {"gpu:0": 8753.56, "cpu": 5995.85}),
    ("Qwen3.6-27B-MTP-Q4.gguf", {"gpu_layers": 40, "mtp": 2}, {"gpu:0": 9006.47, "cpu": 5995.85}),
    ("Qwen3.5-9B-Q4_K_M.gguf", {}, {"cpu": 545.62}),
    ("Qwen3-4B-Q4_K_M.gguf", {}, {"gpu:0": 2375.91, "cpu": 304.28}),
    ("Qwen3-4B-Q4_K_M.gguf", {"gpu_layers": 20}, {"gpu:0": 1401.03, "cpu": 1279.16}),
    ("Llama-3.2-3B-Q4_K_M.gguf", {}, {"gpu:0": 1918.36, "cpu": 308.24}),
    ("Qwen3.6-35B-A3B-Q4_K.gguf", {"n_cpu_moe": 22}, {"gpu:0": 9014.45, "cpu": 9776.81}),
    ("Qwen3.6-35B-A3B-Q4_K.gguf", {"cpu_moe": True}, {"gpu:0": 1238.45, "cpu": 17552.81}),
]


@pytest.mark.parametrize(("name", "options", "printed"), PRINTED)
def test_weights_as_printed(
    replicas: Path, name: str, options: dict[str, Any], printed: dict[str, float]
) -> None:
    found = weights(plan(read(replicas / name), **options))
    assert {device: found[device] for device in printed} == pytest.approx(printed, abs=0.011)


def test_the_search_keeps_as_few_experts_on_the_host_as_fit(replicas: Path) -> None:
    model = read(replicas / "Qwen3.6-35B-A3B-Q4_K.gguf")
    found = plan(model, context_len=131072, memory_bytes=12 * GIB, fit="cpu_moe")
    assert found.fit.fits is True
    assert [step.kind for step in found.placements] == ["one_more", "chosen", "one_less", "least"]
    more, chosen, *_ = found.placements
    assert chosen.n_cpu_moe == found.request.n_cpu_moe
    assert more.shortfall_bytes > 0 >= chosen.shortfall_bytes
    reach = [step.max_context_len or 0 for step in found.placements]
    assert reach == sorted(reach)
    assert plan(model, context_len=131072, memory_bytes=12 * GIB, n_cpu_moe=more.n_cpu_moe).fit.fits is False


def test_the_search_beside_what_people_posted(shared: Path, tmp_path: Path) -> None:
    """gpt-oss-120b on an RTX 3090: experts of 27 of 36 blocks on the host, just under 24 GB
    (hardware-corner.net, 2025-11); all of them there with the full length took about 8 GB (2025-08)."""
    config = shared / "corpus" / "configs" / "openai--gpt-oss-120b.json"
    (tmp_path / "config.json").write_text(config.read_text())
    model = inspect_checkpoint(open_checkpoint(str(tmp_path)))
    found = plan(model, context_len=8192, memory_bytes=int(23.69 * GIB), fit="cpu_moe")
    assert found.request.n_cpu_moe in (25, 26, 27)
    whole = plan(model, context_len=131072, cpu_moe=True).memory.per_device[0]
    assert whole.total_bytes / GIB == pytest.approx(8.5, abs=0.5)


def test_the_search_over_layers(replicas: Path) -> None:
    model = read(replicas / "Qwen3-32B-Q4_K_M.gguf")
    found = plan(model, context_len=8192, memory_bytes=16 * GIB, fit="gpu_layers")
    assert found.fit.fits is True
    assert 40 < (found.request.gpu_layers or 0) < 65
    assert found.placements[0].shortfall_bytes > 0


def test_where_nothing_fits_the_nearest_is_planned(replicas: Path) -> None:
    model = read(replicas / "Qwen3.6-35B-A3B-Q4_K.gguf")
    found = plan(model, context_len=131072, memory_bytes=GIB, fit="cpu_moe")
    assert found.fit.fits is False
    assert found.placements[0].shortfall_bytes >= found.placements[-1].shortfall_bytes
