"""Lines that llama.cpp printed, turned into bytes and reasons."""

from __future__ import annotations

from ropewalk.serving.engines.llama_cpp.log import parse, root_error
from ropewalk.serving.server_report import ServerReport
from ropewalk.units import MIB

# llama.cpp b11549 in the embedded engine, SmolLM2-135M Q4_1, -c 1024 -np 1 -ub 128 -lv 4
SMOLLM2 = """\
0.00.322.404 I load_tensors: loading model tensors, this can take a while... (load_mode = mmap)
0.00.326.525 I load_tensors:   CPU_Mapped model buffer size =    92.10 MiB
0.00.330.597 I llama_context: constructing llama_context
0.00.330.663 I llama_context:        CPU  output buffer size =     0.19 MiB
0.00.330.782 I llama_kv_cache:        CPU KV buffer size =    22.50 MiB
0.00.340.152 I llama_kv_cache: size =   22.50 MiB (  1024 cells,  30 layers,  1/1 seqs), K (f16):   11.25 MiB
0.00.345.393 I sched_reserve:        CPU compute buffer size =     3.91 MiB
0.00.424.687 I slot   load_model: id  0 | task -1 | new slot, n_ctx = 1024
0.00.428.876 I srv          init: listening on http://127.0.0.1:18231
""".splitlines()
AT_EXIT = (
    "D ~llama_context:        CPU compute buffer size is   3.9107 MiB, matches expectation of   3.9107 MiB"
)

# llama.cpp b11434, gemma-3-270m: one cache for the full layers, one for the windows
GEMMA3 = """\
I llama_kv_cache_iswa: creating non-SWA KV cache, size = 4096 cells
I llama_kv_cache:        CPU KV buffer size =    12.00 MiB
I llama_kv_cache: size =   12.00 MiB (  4096 cells,   3 layers,  1/1 seqs), K (f16):    6.00 MiB
I llama_kv_cache_iswa: creating     SWA KV cache, size = 1024 cells
I llama_kv_cache:        CPU KV buffer size =    15.00 MiB
I llama_kv_cache: size =   15.00 MiB (  1024 cells,  15 layers,  1/1 seqs), K (f16):    7.50 MiB
""".splitlines()


def report_of(lines: list[str]) -> ServerReport:
    printed = parse(lines)
    return ServerReport("m", 1024, 1, cells=printed.cells, buffers=printed.buffers)


def test_sizes_are_bytes_with_the_rounding_of_the_print() -> None:
    report = report_of(SMOLLM2)
    assert report.cells == 1024
    sizes = {buffer.name: (buffer.device, buffer.bytes) for buffer in report.buffers}
    assert sizes == {
        "weights": ("CPU_Mapped", 96_573_850),  # 96,576,768 in the file: within the rounding
        "output_buffer": ("CPU", 199_229),  # 49,152 * 4 = 196,608: within the rounding
        "kv_cache": ("CPU", 23_592_960),
        "compute_buffer": ("CPU", 4_099_932),
    }
    assert {buffer.rounding_bytes for buffer in report.buffers} == {5243}  # 0.005 MiB
    assert abs(96_573_850 - 96_576_768) <= 5243
    assert abs(199_229 - 196_608) <= 5243


def test_the_line_at_exit_replaces_the_first_with_four_decimals() -> None:
    compute = report_of([*SMOLLM2, AT_EXIT]).printed("compute_buffer")
    assert compute is not None
    assert compute.bytes == round(3.9107 * MIB)
    assert compute.rounding_bytes == 53


def test_caches_of_windows_and_full_layers_are_summed() -> None:
    report = report_of(GEMMA3)
    cache = report.printed("kv_cache")
    assert cache is not None
    assert cache.bytes == 27 * MIB
    assert cache.rounding_bytes == 2 * 5243
    assert report.cells == 4096
    assert report.printed("state") is None


def test_a_fit_pass_before_the_load_does_not_count() -> None:
    dry = [line.replace("22.50 MiB", "180.00 MiB").replace("92.10", "0.00") for line in SMOLLM2[:-2]]
    assert report_of([*dry, *SMOLLM2]) == report_of(SMOLLM2)


def test_several_devices_are_told_apart_and_summed() -> None:
    lines = [
        "I llama_kv_cache:      CUDA0 KV buffer size =   100.00 MiB",
        "I x: CUDA1 KV buffer size = 50.50 MiB",
    ]
    report = report_of(lines)
    assert [buffer.device for buffer in report.buffers] == ["CUDA0", "CUDA1"]
    cache = report.printed("kv_cache")
    assert cache is not None
    assert cache.bytes == 150 * MIB + MIB // 2


def test_a_recurrent_state_is_its_own_term() -> None:
    state = report_of(["I llama_memory_recurrent:        CPU RS buffer size =   149.62 MiB"]).printed("state")
    assert state is not None
    assert state.bytes == round(149.62 * MIB)


def test_the_first_error_is_the_reason() -> None:
    lines = [
        "0.00.004.560 E gguf_init_from_file: failed to open GGUF file '/x' (No such file or directory)",
        "0.00.004.682 E llama_model_load: error loading model: llama_model_loader: failed to load model",
        "0.00.005.033 E srv          init: exiting due to model loading error",
    ]
    assert (
        root_error(lines) == "gguf_init_from_file: failed to open GGUF file '/x' (No such file or directory)"
    )


def test_an_argument_that_is_refused_has_no_prefix() -> None:
    assert (
        root_error(["error: invalid argument: --no-such-flag"]) == "error: invalid argument: --no-such-flag"
    )
    line = 'error while handling argument "-c": stoi'
    assert root_error([line]) == line


def test_a_failed_assertion_is_a_reason() -> None:
    line = "/src/ggml/ggml.c:1234: GGML_ASSERT(n > 0) failed"
    assert root_error(["I fine", line]) == line


def test_a_refused_request_is_no_reason_to_end() -> None:
    line = "E srv    send_error: task id = 4, error: request (2000 tokens) exceeds the available context size"
    assert root_error([line]) is None
    assert root_error([]) is None


def test_a_log_without_prefixes_has_a_reason_too() -> None:
    lines = [
        "srv    load_model: loading model '/x'",
        "gguf_init_from_file: failed to open GGUF file '/x' (No such file or directory)",
        "srv          init: exiting due to model loading error",
    ]
    assert root_error(lines) == lines[1]
    bind = "srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 18233"
    assert root_error([bind]) == bind


def test_a_lost_rpc_server_is_the_reason() -> None:
    lines = [
        "0.03.817.603 E send failed (bytes_sent=0, size_to_send=8)",
        "/src/ggml/src/ggml-rpc/ggml-rpc.cpp:566: Remote RPC server crashed or returned malformed response",
        "[New LWP 4242]",
    ]
    assert root_error(lines) == "Remote RPC server crashed or returned malformed response"


DRAFT = """\
0.02.073.000 I common_speculative_init_result: loading draft model 'small.gguf'
0.02.073.010 I load_tensors: loading model tensors, this can take a while... (load_mode = mmap)
0.02.073.028 I load_tensors:   CPU_Mapped model buffer size =    10.00 MiB
0.02.074.429 I llama_context: constructing llama_context
0.02.074.490 I llama_context:        CPU  output buffer size =     0.25 MiB
0.02.074.665 I llama_kv_cache:        CPU KV buffer size =     5.50 MiB
0.02.074.700 I llama_kv_cache: size =    5.50 MiB (  9999 cells,   4 layers,  1/1 seqs), K (f16):    2.75 MiB
0.02.345.231 I sched_reserve:        CPU compute buffer size =     1.25 MiB
""".splitlines()
MTP = """\
0.02.074.429 I llama_context: constructing llama_context
0.02.074.665 I llama_kv_cache:        CPU KV buffer size =     3.00 MiB
""".splitlines()


def test_what_a_draft_brings_is_a_term_of_its_own() -> None:
    """Sizes of the model that is served stay what they are (b11434, -md with --spec-type draft-simple)."""
    alone, both = report_of(SMOLLM2), report_of([*SMOLLM2, *DRAFT])
    draft = both.printed("draft_model")
    assert draft is not None
    assert draft.bytes == 17 * MIB
    assert both.cells == alone.cells == 1024
    for name in ("weights", "kv_cache", "output_buffer", "compute_buffer"):
        assert both.printed(name) == alone.printed(name)
    again = report_of([*SMOLLM2, *DRAFT, *SMOLLM2])  # loaded anew
    assert again.buffers == alone.buffers


def test_a_second_context_of_the_same_model_drafts_by_mtp() -> None:
    both = report_of([*SMOLLM2, *MTP])
    assert both.printed("kv_cache") == report_of(SMOLLM2).printed("kv_cache")
    draft = both.printed("draft_model")
    assert draft is not None
    assert draft.bytes == 3 * MIB
