"""The lists of options: complete enough that a real one is never called unknown."""

from __future__ import annotations

import json
import subprocess

import pytest

from ropewalk.checking.flags import flag_set
from ropewalk.engines import EngineName
from ropewalk.serving.engines.vllm import install

# Options that people use, by engine, from guides and model cards.
LLAMA = (
    "-m", "-c", "-np", "-ngl", "-fa", "-ctk", "-ctv", "-ub", "-b", "-t", "-tb", "--host", "--port",
    "--jinja", "--mmproj", "-hf", "--api-key", "--metrics", "--slots", "--no-webui", "-cram", "-ctxcp",
    "--swa-full", "--kv-unified", "-kvu", "--override-kv", "--rope-scaling", "--rope-scale",
    "--yarn-orig-ctx", "--rope-freq-base", "--rope-freq-scale", "--n-cpu-moe", "-ot", "-ts", "-sm",
    "-mg", "--no-warmup", "--reasoning-format", "--temp", "--top-k", "--chat-template-file",
    "--no-context-shift", "-fit", "-fitt", "-fitc", "-lm", "--alias", "--embeddings", "--pooling", "-md",
    "-ngld", "--lora", "--cache-reuse", "-sps", "--no-mmproj", "--threads-http", "--seed", "--numa",
    "--cpu-moe", "--log-file", "-lv", "--verbose", "--offline", "--kv-unified-per-slot",
    "--no-kv-offload", "--no-repack", "--log-prefix",
)  # fmt: skip
VLLM = (
    "--max-model-len", "--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp",
    "--gpu-memory-utilization", "--hf-overrides", "--kv-cache-dtype", "--kv-cache-memory-bytes",
    "--max-num-seqs", "--max-num-batched-tokens", "--enable-prefix-caching", "--enforce-eager",
    "--quantization", "--dtype", "--served-model-name", "--host", "--port", "--trust-remote-code",
    "--revision", "--tokenizer", "--chat-template", "--tool-call-parser", "--enable-auto-tool-choice",
    "--reasoning-parser", "--api-key", "--seed", "--speculative-config", "--compilation-config",
    "--limit-mm-per-prompt", "--enable-lora", "--max-loras", "--lora-modules", "--block-size",
    "--cpu-offload-gb", "--download-dir", "--load-format", "--generation-config",
    "--enable-chunked-prefill", "--disable-hybrid-kv-cache-manager", "--async-scheduling",
    "--data-parallel-size", "-dp", "--enable-expert-parallel", "--disable-log-stats", "--config",
    "--uvicorn-log-level", "--override-generation-config", "--no-enable-prefix-caching",
)  # fmt: skip


@pytest.mark.parametrize(("engine", "names"), [("llama-server", LLAMA), ("vllm", VLLM)])
def test_real_options_are_known(engine: EngineName, names: tuple[str, ...]) -> None:
    flags = flag_set(engine)
    assert [name for name in names if name not in flags.known] == []


def test_the_lists_say_which_version_they_are_of() -> None:
    llama, vllm = flag_set("llama-server"), flag_set("vllm")
    assert (llama.version, len({flag.name for flag in llama.known.values()})) == ("b11434", 251)
    assert (vllm.version, len({flag.name for flag in vllm.known.values()})) == ("0.32.0", 317)


def test_no_removed_option_is_known_as_well() -> None:
    for flags in (flag_set("llama-server"), flag_set("vllm")):
        assert flags.known.keys() & flags.removed.keys() == set()


def test_all_spellings_lead_to_one_name() -> None:
    flags = flag_set("llama-server")
    names = {flag.name for name in ("-kvu", "--kv-unified", "-no-kvu") if (flag := flags.find(name))}
    assert names == {"--kv-unified"}


def test_a_removed_option_is_gone_from_the_version_on() -> None:
    flags = flag_set("vllm")
    rope_scaling = flags.removed["--rope-scaling"]
    assert flags.is_gone(rope_scaling, None)
    assert flags.is_gone(rope_scaling, "0.11.1")
    assert not flags.is_gone(rope_scaling, "0.11.0")
    no_mmap = flag_set("llama-server").removed["--no-mmap"]
    assert not flag_set("llama-server").is_gone(no_mmap, "b8850")


def test_misspellings_find_their_option() -> None:
    assert flag_set("llama-server").close_to("--ctx-sise")[0] == "--ctx-size"
    assert flag_set("vllm").close_to("--gpu-memory-utilisation")[0] == "--gpu-memory-utilization"
    assert flag_set("vllm").close_to("--xyzzy") == []


@pytest.mark.slow
def test_the_list_is_that_of_the_installed_vllm() -> None:
    """Asks vLLM's own parser, where the version that the list is of is installed."""
    python = install.installed()
    flags = flag_set("vllm")
    if python is None or flags.version != install.VERSION:
        pytest.skip("that vLLM is not installed")
    script = (
        "import json, sys; sys.argv = ['vllm', 'serve', 'm']\n"
        "from vllm.utils.argparse_utils import FlexibleArgumentParser as Parser\n"
        "from vllm.entrypoints.launchers.cli_args import make_arg_parser\n"
        "print('OPTIONS', json.dumps([a.option_strings for a in make_arg_parser(Parser())._actions]))"
    )
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, check=True)
    line = next(line for line in done.stdout.splitlines() if line.startswith("OPTIONS"))
    spelled = {name for names in json.loads(line.removeprefix("OPTIONS")) for name in names}
    assert spelled == set(flags.known)
