"""Logs of servers started elsewhere, beside what their commands resolve to.

llama-server: llama.cpp b11549 in the embedded engine at ``-lv 4``, SmolLM2-135M Q4_1. vLLM: lines and token
counts measured with vLLM 0.32.0 on a processor, SmolLM2-135M; its line of arguments as 0.25.0 prints it.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest
from tests.checking.conftest import from_config, smollm2_gguf

from ropewalk import jsonio
from ropewalk.checking.foreign_log import open_log
from ropewalk.checking.log_report import LogReport, LogTerm, log_report
from ropewalk.errors import UsageError
from ropewalk.inspector.records import Inspection

__all__ = ["smollm2_gguf"]  # the fixture

LLAMA = """\
$ llama-server -m smollm2.gguf -c 1024 -np 1 -fit off -cram 0 -ctxcp 0 -lv 4
0.00.002.182 I srv          init: build_info: b11549-0123abc
0.01.443.817 I load_tensors:   CPU_Mapped model buffer size =    92.10 MiB
0.01.476.222 I llama_context: n_seq_max             = 1
0.01.476.229 I llama_context: n_ctx                 = 1024
0.01.476.235 I llama_context: n_ctx_seq             = 1024
0.01.476.356 I llama_context:        CPU  output buffer size =     0.19 MiB
0.01.476.459 I llama_kv_cache:        CPU KV buffer size =    22.50 MiB
0.01.549.561 I llama_kv_cache: size =   22.50 MiB (  1024 cells,  30 layers,  1/1 seqs), K (f16):   11.25 MiB
0.01.585.502 I sched_reserve:        CPU compute buffer size =    15.64 MiB
"""
VLLM_ARGS = (
    "(APIServer pid=57) INFO 07-12 02:33:24 [api_utils.py:273] non-default args: {'model_tag': 'smollm2', "
    "'api_key': ['aabduh'], 'model': 'smollm2', 'max_model_len': 8192, 'enforce_eager': True, "
    "'served_model_name': ['a', 'b'], 'gpu_memory_utilization': 0.2, 'enable_prefix_caching': False, "
    "'hf_overrides': {'x': None}}\n"
)
VLLM_VERSION = "(APIServer pid=57) INFO 07-12 02:33:23 [api_server.py:1774] vLLM API server version 0.32.0\n"
VLLM_AUTO = (
    "INFO [model.py:1] Using max model len 8192\n"
    "Auto set (3.63/23.54) GiB for KV cache on node 0, with 4.71 GiB requested memory for the worker.\n"
    "CPU KV cache size: 169,216 tokens, Maximum concurrency for 8,192 tokens per request: 20.66x\n"
)
VLLM_SET = (
    "Using max model len 8192\nExplicitly set (0.47/23.54) GiB for KV cache on node 0.\n"
    "CPU KV cache size: 21,632 tokens, Maximum concurrency for 8,192 tokens per request: 2.64x\n"
)
VLLM_SHRUNK = (
    "Using max model len 8192\nExplicitly set (0.09/23.54) GiB for KV cache on node 0.\n"
    "Auto-fit max_model_len: reduced from 8192 to 4096 to fit in available KV cache memory (0.09 GiB CPU)\n"
    "CPU KV cache size: 4,224 tokens, Maximum concurrency for 4,096 tokens per request: 1.03x\n"
)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "server.log"


def read(
    path: Path, text: str, inspection: Inspection | None = None, command: str | None = None
) -> LogReport:
    path.write_text(text)
    words = None if command is None else (command,)
    report = log_report(open_log(path), path=str(path), command=words, inspection=inspection)
    assert jsonio.loads(LogReport, jsonio.dumps(report)) == report
    return report


def term(report: LogReport, name: str) -> LogTerm:
    return next(one for one in (*report.lengths, *report.memory) if one.name == name)


def test_a_llama_server_that_is_what_its_command_says(log: Path, smollm2_gguf: Inspection) -> None:
    report = read(log, LLAMA, smollm2_gguf)
    assert (report.engine, report.engine_version, report.command_from) == ("llama-server", "b11549", "log")
    assert [(one.name, one.planned_low, one.printed, one.agrees) for one in report.lengths] == [
        ("context_per_request", 1024, 1024, True),
        ("num_sequences", 1, 1, True),
        ("kv_cells", 1024, 1024, True),
    ]
    cache = term(report, "kv_cache")
    assert (cache.planned_low, cache.printed, cache.agrees) == (23_592_960, 23_592_960, True)
    assert term(report, "output_buffer").agrees  # 196,608 B printed as 0.19 MiB
    assert report.ok


def test_another_command_than_the_one_that_ran_is_told(log: Path, smollm2_gguf: Inspection) -> None:
    given = "llama-server -m smollm2.gguf -c 2048 -np 1 -fit off -ctk q8_0 -ctv q8_0 -fa on"
    report = read(log, LLAMA, smollm2_gguf, given)
    assert report.command_from == "given"
    assert not report.ok
    errors = {finding.where["term"] for finding in report.findings if finding.code == "printed_differs"}
    assert {"context_per_request", "kv_cells", "kv_cache"} <= errors
    assert term(report, "num_sequences").agrees


def test_a_command_of_the_other_engine_is_an_error(log: Path, smollm2_gguf: Inspection) -> None:
    report = read(log, LLAMA, smollm2_gguf, "vllm serve smollm2")
    assert "engine_differs" in {finding.code for finding in report.findings}
    assert not report.ok


def test_vllms_arguments_are_its_command_without_secrets(log: Path) -> None:
    report = read(log, VLLM_VERSION + VLLM_ARGS)
    assert report.engine_version == "0.32.0"
    assert report.command == (
        "vllm", "serve", "smollm2", "--max-model-len", "8192", "--enforce-eager", "--served-model-name", "a",
        "b", "--gpu-memory-utilization", "0.2", "--no-enable-prefix-caching", "--hf-overrides", '{"x": null}',
    )  # fmt: skip
    assert "aabduh" not in jsonio.dumps(report)


def test_a_pool_that_vllm_found_holds_what_the_plan_says_of_its_size(log: Path) -> None:
    report = read(log, VLLM_VERSION + VLLM_ARGS.replace(", 'hf_overrides': {'x': None}", "") + VLLM_AUTO,
                  from_config("smollm2"))  # fmt: skip
    cells = term(report, "kv_cells")
    assert cells.planned_low is not None
    assert cells.planned_high is not None
    assert cells.planned_low < 169_216 <= cells.planned_high  # 3.63 GiB is printed with two decimals
    assert cells.planned_high - cells.planned_low < 600
    assert cells.agrees
    assert term(report, "context_per_request").agrees
    pool = term(report, "kv_cache")
    assert (pool.printed, pool.planned_low, pool.agrees) == (round(3.63 * 2**30), None, None)


def test_a_pool_of_a_given_size_holds_just_what_is_planned(log: Path) -> None:
    command = "vllm serve smollm2 --max-model-len 8192 --enforce-eager --kv-cache-memory-bytes 500000000"
    cells = term(read(log, VLLM_SET, from_config("smollm2"), command), "kv_cells")
    assert (cells.planned_low, cells.planned_high, cells.printed, cells.agrees) == (21632, 21632, 21632, True)


def test_a_length_that_vllm_shrank_is_the_one_it_serves(log: Path) -> None:
    command = "vllm serve smollm2 --max-model-len 8192 --enforce-eager --kv-cache-memory-bytes 100000000"
    report = read(log, VLLM_SHRUNK, from_config("smollm2"), command)
    context = term(report, "context_per_request")
    assert (context.planned_low, context.printed, context.agrees) == (8192, 4096, False)
    assert not report.ok


def test_without_a_command_the_log_alone_is_shown(log: Path) -> None:
    report = read(log, VLLM_SET)
    assert (report.command, report.check, report.ok) == (None, None, True)
    assert term(report, "kv_cells").printed == 21632
    assert [finding.code for finding in report.findings] == ["command_unknown"]


def test_a_server_that_gave_up_is_an_error_in_its_own_words(log: Path) -> None:
    report = read(log, VLLM_VERSION + "ValueError: the checkpoint is not there\n")
    assert "the checkpoint is not there" in report.findings[0].message
    assert not report.ok


@pytest.mark.parametrize(
    "arguments",
    ["{'a': <Enum: 1>}", "{'model': 'a\\', 'port': 007}", "{" * 5000 + "}", "{'a': __import__('os')}"],
)
def test_arguments_that_are_no_literals_are_no_command(log: Path, arguments: str) -> None:
    assert read(log, f"{VLLM_VERSION}non-default args: {arguments}\n").command is None


@pytest.mark.parametrize("data", [b"", b"GET /health 200\n", b"\x00\xff" * 1000])
def test_what_is_no_such_log_is_wrong_usage(log: Path, data: bytes) -> None:
    log.write_bytes(data)
    with pytest.raises(UsageError, match="no log of vLLM or llama-server") as caught:
        open_log(log)
    assert caught.value.code == "log_not_recognised"
    with pytest.raises(UsageError, match="cannot be read"):
        open_log(log.with_name("none"))


# --- logs of GPUs, as collectors keep them ----------------------------------------------------------------
# ruff: noqa: E501 - lines as they are printed

GPU_11 = """\
INFO 10-12 11:00:00 [api_server.py:1839] vLLM API server version 0.11.0
INFO 10-12 11:00:00 [utils.py:233] non-default args: {'model_tag': 'm', 'model': 'm', 'max_model_len': 8192, 'x': <A>}
INFO 10-12 11:00:09 [scheduler.py:205] Chunked prefill is enabled with max_num_batched_tokens=2048.
(EngineCore_DP0 pid=1) INFO 10-12 11:00:20 [gpu_model_runner.py:2653] Model loading took 15.2683 GiB and 5.1 seconds
(EngineCore_DP0 pid=1) DEBUG 10-12 11:00:30 [gpu_worker.py:283] Memory profiling takes 3.12 seconds. Total non \
KV cache memory: 17.45GiB; torch peak memory increase: 1.27GiB; non-torch forward increase memory: 0.13GiB; \
weights memory: 15.27GiB.
(EngineCore_DP0 pid=1) INFO 10-12 11:00:30 [gpu_worker.py:298] Available KV cache memory: 54.30 GiB
(EngineCore_DP0 pid=1) INFO 10-12 11:00:30 [kv_cache_utils.py:1087] GPU KV cache size: 444,816 tokens
(EngineCore_DP0 pid=1) INFO 10-12 11:00:40 [gpu_model_runner.py:3480] Graph capturing finished in 9 secs, took 0.59 GiB
"""
GPU_32 = """\
(APIServer pid=7) INFO 11-30 11:00:00 [api_utils.py:273] vLLM API server version 0.32.0
(Worker_TP0 pid=8) INFO 11-30 11:00:20 [gpu_model_runner.py:5001] Model loading took 7.63 GiB memory and 5.1 seconds
(Worker_TP1 pid=9) INFO 11-30 11:00:20 [gpu_model_runner.py:5001] Model loading took 7.64 GiB memory and 5.1 seconds
(Worker_TP0 pid=8) INFO 11-30 11:00:30 [gpu_worker.py:440] Estimated CUDA graph memory: 0.84 GiB total
(Worker_TP0 pid=8) INFO 11-30 11:00:41 [gpu_worker.py:700] Free memory on device cuda:0 (78.68/79.19 GiB) on \
startup. Desired GPU memory utilization is (0.95, 75.23 GiB). Actual usage is 7.63 GiB for weight, 0.77 GiB for \
peak activation, 2.07 GiB for non-torch memory, and 0.89 GiB for CUDAGraph memory.
(EngineCore pid=1) INFO 11-30 11:00:42 [kv_cache_utils.py:1] GPU KV cache size: 1,026,256 tokens
"""
BREAKDOWN = """\
common_memory_breakdown_print: | memory breakdown [MiB]     | total   free    self   model   context   compute    unaccounted |
common_memory_breakdown_print: |   - CUDA0 (RTX 3090)       | 24124 =  700 + (23170 = 15002 +    7513 +     654) +         254 |
common_memory_breakdown_print: |   - Host                   |                  1093 =   682 +       0 +     411                |
"""


def printed(report: LogReport) -> dict[str, int | None]:
    return {one.name: one.printed for one in report.memory if one.printed is not None}


def gib(size: str) -> int:
    return round(float(size) * 1024**3)


@pytest.mark.parametrize(
    "prefix",
    ["", "2026-10-12T11:00:00.123456789Z ", "vllm-1  | ", "[2026-10-12 11:00:00,123] ", "\x1b[36m", "stdout F ",
     "Oct 12 11:00:00 host vllm[123]: "],
)  # fmt: skip
def test_every_term_of_an_older_gpu_log_is_read(prefix: str, log: Path) -> None:
    report = read(log, "".join(f"{prefix}{line}\n" for line in GPU_11.splitlines()))
    assert report.engine_version == "0.11.0"
    assert report.command == ("vllm", "serve", "m", "--max-model-len", "8192")
    assert printed(report) == {
        "weights": gib("15.2683"), "activations": gib("1.27"), "process_overhead": gib("0.13"),
        "cuda_graphs": gib("0.59"), "kv_cache": gib("54.30"),
    }  # fmt: skip
    assert (term(report, "kv_cells").printed, term(report, "batched_tokens").printed) == (444_816, 2048)


def test_every_term_of_a_newer_gpu_log_is_read(log: Path) -> None:
    log.write_text(GPU_32)
    seen = open_log(log)
    assert (seen.version, seen.device, seen.cells) == ("0.32.0", "gpu", 1_026_256)
    assert seen.memory_bytes == gib("79.19")
    report = read(log, GPU_32, from_config("llama-3.1-8b"), "vllm serve m -tp 2 --max-num-seqs 16")
    assert term(report, "weights").printed == gib("7.63") + gib("7.64")
    assert term(report, "weights").agrees, "both ranks printed theirs"
    graphs = term(report, "cuda_graphs")
    assert graphs.printed == gib("0.89"), "measured goes before estimated; one rank printed it"
    assert graphs.planned_high is not None
    assert report.check is not None
    assert report.check.resolved.memory is not None
    whole = next(one for one in report.check.resolved.memory.terms if one.name == "cuda_graphs")
    assert graphs.planned_high == whole.high_bytes // 2


def test_no_memory_for_the_cache_is_a_failure(log: Path) -> None:
    text = (
        "INFO 10-12 11:00:00 [api_server.py:1] vLLM API server version 0.11.0\n"
        "ERROR 10-12 11:00:01 [core.py:700] EngineCore failed to start.\n"
        "ERROR 10-12 11:00:01 [core.py:700] Traceback (most recent call last):\n"
        "ERROR 10-12 11:00:01 [core.py:700] ValueError: No available memory for the cache blocks. Try "
        "increasing `gpu_memory_utilization` when initializing the engine.\n"
    )
    report = read(log, text)
    failed = next(finding for finding in report.findings if finding.code == "engine_failed")
    assert "No available memory for the cache blocks" in failed.message
    assert not report.ok


def test_a_breakdown_alone_is_a_log(log: Path) -> None:
    report = read(log, BREAKDOWN)
    mib = 1024**2
    assert printed(report) == {"weights": 15684 * mib, "context": 7513 * mib, "compute_buffer": 1065 * mib}
    assert open_log(log).device == "gpu"


def test_the_last_breakdown_counts(log: Path) -> None:
    report = read(log, BREAKDOWN.replace("15002", "99999") + BREAKDOWN)
    assert printed(report)["weights"] == 15684 * 1024**2


def test_our_own_log_of_the_embedded_engine_is_read(log: Path, smollm2_gguf: Inspection) -> None:
    first = (
        "# /venv/bin/python3.12 -P -m ropewalk.serving.engines.llama_cpp.embedded -m smollm2.gguf -c 1024 "
        "-np 1 -fit off -cram 0 -ctxcp 0 -lv 4\n"
    )
    report = read(log, first + LLAMA.partition("\n")[2], smollm2_gguf)
    assert report.command_from == "log"
    assert term(report, "kv_cache").agrees
    assert report.ok


@pytest.mark.parametrize(
    "line",
    [
        "non-default args: {1, 2}",
        "non-default args: {'model': 'm', 'hf_overrides': {b'a': {1, 2}, 3: 4j}}",
        "non-default args: {'model': 'm', 5: 6, 'max_model_len': 1e400}",
        "Using max model len " + "9" * 5000,
        "GPU KV cache size: " + "9," * 5000 + " tokens",
        "Model loading took " + "9" * 5000 + ".5 GiB",
        "Available KV cache memory: " + "1." * 5000 + " GiB",
        "vllm serve '",
        "a=" * 30_000 + " vllm serve m",
        "'max_model_len': '" * 3000 + "non-default args: {" + "'a': '" * 5000 + "}",
        "memory_breakdown_print: |   - " + "(" * 60_000,
        "llama_context: n_ctx " + " " * 60_000 + "= 5",
        "CUDA0 " * 10_000 + "model buffer size = " + "9" * 5000 + ".00 MiB",
        "E " * 30_000,
        " " * 60_000 + "x",
    ],
)
def test_hostile_lines_are_read_in_no_time(line: str, log: Path) -> None:
    """security2.md 11: odd arguments and numbers ended in a traceback, long lines took minutes."""
    for head in (VLLM_VERSION, "srv  init: x\nload_tensors: x\n"):
        log.write_text(head + f"{line}\n" * 20)
        with contextlib.suppress(UsageError):
            read(log, head + f"{line}\n" * 20)


def test_a_pipe_is_no_log(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError):
        open_log(tmp_path / "pipe")


TWO_CARDS = """\
version: 9893 (d75936111)
I common_memory_breakdown_print: | memory breakdown [MiB] | total    free     self   model   context   compute    unaccounted |
I common_memory_breakdown_print: |   - CUDA0 (RTX 5090)   | 32111 = 31153 + (33975 = 16386 +   16832 +     756) +      -33017 |
I common_memory_breakdown_print: |   - CUDA1 (RTX 3090)   | 24113 = 23153 + ( 3975 =  3000 +     600 +     375) +        -300 |
I common_memory_breakdown_print: |   - Host               |                   1234 =   682 +       0 +     552                |
"""


def test_a_table_alone_names_devices_and_build(log: Path) -> None:
    log.write_text(TWO_CARDS)
    found = open_log(log)
    assert (found.version, found.device, found.device_count) == ("b9893", "gpu", 2)
    assert found.memory_bytes == 24113 * 1024**2


def test_the_table_as_a_record(log: Path) -> None:
    """llama.cpp b11434, ``--log-jsonl``."""
    log.write_text(
        '{"type":"fit_memory_breakdown","data":{"unit":"MiB","rows":[{"kind":"device","name":"CUDA0",'
        '"total":24113,"model":11200,"context":1500,"compute":550},{"kind":"host","name":"Host","model":682}]}}\n'
    )
    sizes = {(buffer.device, buffer.name): buffer.bytes >> 20 for buffer in open_log(log).buffers}
    assert sizes == {
        ("CUDA0", "weights"): 11200,
        ("CUDA0", "context"): 1500,
        ("CUDA0", "compute_buffer"): 550,
        ("Host", "weights"): 682,
    }


# Lines of a start on a GPU by version, as their sources format them (v1/worker/gpu_worker.py, utils/
# mem_utils.py, v1/worker/gpu_model_runner.py, v1/core/kv_cache_utils.py): figures of one start.
_HEAD = """\
vLLM API server version {version}
non-default args: {{'model_tag': 'smollm2', 'model': 'smollm2', 'max_model_len': 8192}}
Using max model len 8192
Chunked prefill is enabled with max_num_batched_tokens=8192.
Model loading took 0.26 GiB{memory} and 1.5 seconds
"""
_SEPARATE = (
    "Free memory on device (78.68/79.19 GiB) on startup. Desired GPU memory utilization is (0.9, 71.27 GiB). "
    "Actual usage is 0.26 GiB for weight, 1.21 GiB for peak activation, 0.25 GiB for non-torch memory, and "
    "0.31 GiB for CUDAGraph memory. Replace gpu_memory_utilization config with `--kv-cache-memory=1` (1.0 GiB) "
    "to fit into requested memory. Current kv cache memory in use is 69.55 GiB.\n"
)
_TOGETHER = (
    "Free memory on device (78.68/79.19 GiB) on startup. Desired GPU memory utilization is (0.92, 72.85 GiB). "
    "Actual usage is 0.51 GiB for consumed memory (weights + non-torch), 1.57 GiB for peak activation, and "
    "0.31 GiB for CUDAGraph memory. Current kv cache memory in use is 70.77 GiB.\n"
)
_DEBUG = (
    "Memory profiling takes 3.10 seconds. Total non KV cache memory: 1.72GiB; torch peak memory increase: "
    "1.21GiB; non-torch forward increase memory: 0.25GiB; weights memory: 0.26GiB.\n"
)
_POOL_LINES = (
    "Available KV cache memory: 69.55 GiB\nGPU KV cache size: 3,240,000 tokens\n"
    "Maximum concurrency for 8,192 tokens per request: 395.51x\n"
)
_GRAPHS = "Graph capturing finished in 12 secs, took 0.31 GiB\n"
_STAMPED = "(EngineCore_DP0 pid=271) INFO 11-30 12:00:01 [gpu_worker.py:298] "


def start_log(version: str, *, debug: bool, stamped: bool) -> str:
    """What a server of this version prints."""
    minor = int(version.split(".")[1])
    head = _HEAD.format(version=version, memory=" memory" if minor >= 20 else "")
    estimated = "Estimated CUDA graph memory: 0.36 GiB total\n" if minor >= 19 else ""
    settled = _TOGETHER if minor >= 27 else _SEPARATE
    used = _DEBUG if debug and minor < 27 else settled
    text = head + estimated + used + _POOL_LINES + _GRAPHS
    return "".join(f"{_STAMPED if stamped else ''}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize("version", ["0.11.0", "0.15.1", "0.20.0", "0.26.0", "0.29.0", "0.33.0"])
@pytest.mark.parametrize(("debug", "stamped"), [(True, False), (False, True)])
def test_terms_of_a_start_by_version(log: Path, version: str, debug: bool, stamped: bool) -> None:
    report = read(log, start_log(version, debug=debug, stamped=stamped), from_config("smollm2"))
    assert report.engine_version == version
    printed = {one.name: one.printed for one in (*report.lengths, *report.memory)}
    sizes = {
        "weights": 0.26,
        "activations": 1.21,
        "process_overhead": 0.25,
        "cuda_graphs": 0.31,
        "kv_cache": 69.55,
    }
    for name, gib in sizes.items():
        assert printed[name] == pytest.approx(gib * 2**30, abs=2), name
    assert (printed["batched_tokens"], printed["kv_cells"]) == (8192, 3_240_000)


@pytest.mark.parametrize(
    "reason",
    [
        "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        "To serve at least one request with the models's max seq len (131072), (8.18 GiB KV cache is needed, which "
        "is larger than the available KV cache memory (7.04 GiB). Based on the available memory, the estimated "
        "maximum model length is 112896. Try increasing `gpu_memory_utilization` or decreasing `max_model_len`.",
        "max_num_seqs (256) exceeds available Mamba cache blocks (184).",
    ],
)
@pytest.mark.parametrize("front", ["", "(EngineCore_DP0 pid=271) ERROR 11-30 12:00:09 [core.py:708] "])
def test_a_start_that_vllm_refused(log: Path, reason: str, front: str) -> None:
    lines = ["vLLM API server version 0.26.0", "Available KV cache memory: 7.04 GiB"]
    trace = [
        "Traceback (most recent call last):",
        '  File "core.py", line 1, in run',
        f"ValueError: {reason}",
    ]
    report = read(log, "\n".join([*lines, *(front + line for line in trace)]) + "\n")
    failed = next(finding for finding in report.findings if finding.code == "engine_failed")
    assert reason in failed.message
    assert not report.ok
