"""``engines.md``: what changes with the version of an engine, and which cache types each takes."""

from __future__ import annotations

from collections.abc import Mapping

from docs.markdown import code, table
from ropewalk.engines import REGISTRY, Engine, engine_of
from ropewalk.planner.caches import CacheType
from ropewalk.planner.engines import (
    llama_memory,
    transformers,
    vllm_capacity,
    vllm_settings,
)
from ropewalk.planner.rope.versions import RULES, VersionRule


def engines_page() -> str:
    """The whole page."""
    own = [rule for rule in vars(vllm_capacity).values() if isinstance(rule, VersionRule)]
    return "\n".join(
        [
            _INTRODUCTION,
            table(
                "engine",
                "reads",
                "rope by",
                "planned",
                "checked",
                "served",
                "confirms",
                rows=map(_row, REGISTRY.values()),
            ),
            _TAKEN,
            table("engine", "since", "what changed", "source", rows=map(_rule, (*RULES, *own))),
            _LLAMA_CPP_PYTHON,
            _OLLAMA,
            _CACHE_TYPES,
            _types("llama-server and llama-cpp-python", llama_memory.CACHE_TYPES),
            _types("vLLM on a GPU", vllm_settings.GPU_TYPES),
            f"\nOn a CPU vLLM takes {code(vllm_settings.CPU_TYPES)}.\n",
            _types("transformers", transformers.CACHE_TYPES),
            _MEMORY,
        ]
    )


def _row(engine: Engine) -> list[str]:
    done = ("yes", engine.checker, engine.room, engine.answers_dry_run)
    return [
        f"`{engine.name}`",
        ", ".join(engine.formats),
        _WORDS[engine.rope.words],
        *("yes" if one else "no" for one in done),
    ]


def _rule(rule: VersionRule) -> list[str]:
    number = ".".join(map(str, rule.since))
    return [
        rule.engine,
        f"b{number}" if engine_of(rule.engine).counts_builds else number,
        rule.change,
        rule.source,
    ]


def _types(engine: str, types: Mapping[str, CacheType]) -> str:
    return f"\n### {engine}\n" + table("type", "block", "bytes of a block", rows=map(_type, types.values()))


def _type(kind: CacheType) -> list[str]:
    beside = f" and {kind.head_bytes} per head and token" if kind.head_bytes else ""
    values = "1 value" if kind.block_len == 1 else f"{kind.block_len} values"
    return [f"`{kind.name}`", values, f"{kind.block_bytes}{beside}"]


_INTRODUCTION = """# Engines and versions

The rules were read and checked in vLLM 0.32 and 0.33, llama.cpp b11434 and b11549 (the wheel of the embedded
engine), llama-cpp-python 0.3.36 and transformers 5.24. Engines change every few weeks: `ropewalk doctor`
shows which ones are installed, `ropewalk plan --confirm` asks the installed one to work out its memory
itself, and `ropewalk serve --verify` fills the context once and looks whether the rope is really scaled.

## What is done with each

Planned: `plan`. Checked: `check` judges its command lines. Served: `serve` and `measure`. Confirms: it works
out its own memory for `plan --confirm`.
"""

_WORDS = {
    "vllm_hf_overrides": "`--hf-overrides`",
    "llama_server_flags": "flags",
    "transformers_v5": "`config.json`",
    "header": "the file's header (`ropewalk bake`)",
}

_TAKEN = """
## Which engine is taken

For a checkpoint the first of the table that is served and reads its format, unless `--engine` names another.
Of that engine `--engine-path`, else the environment variable (`ROPEWALK_LLAMA_SERVER`, `ROPEWALK_VLLM`,
`ROPEWALK_LLAMA_CPP_PYTHON`), else the search path, else what stands beside ropewalk or was installed by
`ropewalk engine add`. Each may be a program or, for vLLM and llama-cpp-python, the Python interpreter of its
environment.

An engine in a container is a program, too. What it is given must mean the same inside: the files at the same
paths, the network of the host. Environment variables that a plan sets are handed on with `-e NAME`.

```sh
#!/bin/sh
# ~/bin/vllm-container; then: export ROPEWALK_VLLM=~/bin/vllm-container
exec docker run --rm --init --network host --ipc host --gpus all -v "$HOME:$HOME:ro" \\
  --entrypoint vllm vllm/vllm-openai:v0.32.0 "$@"
```

Stopping it stops the container, as `docker run` hands signals on. One that had to be killed may stay behind:
`docker ps` shows it.

## Versions

A plan is for the engine that is installed here, or for `--engine-version V`. What is known to differ between
versions is this; a version that cannot be read is taken to be as new as the newest:
"""

_OLLAMA = """
## Ollama

`--engine ollama` plans what Ollama 0.33 makes of a GGUF; nothing is started. It runs llama-server itself
(b10488), so that the memory is that one's, with these differences:

| | what Ollama does |
|---|---|
| context | `num_ctx`, capped at the length that the file declares |
| without `num_ctx` | 4,096 tokens below 23 GiB of GPU memory, 32,768 below 47 GiB, 262,144 above |
| beyond the declared length | nothing: it has no rope setting. `ropewalk bake` writes YaRN into a copy |
| sequences | `OLLAMA_NUM_PARALLEL`, 1 by default: `-c` is `num_ctx` times that |
| batch, `-b` and `-ub` | 512; 1,024 above 4,096 tokens of all slots, 2,048 above 32,768, if memory allows |
| cache type | `OLLAMA_KV_CACHE_TYPE`, one for keys and values |
| layers on the GPU | as many as llama-server finds room for; `num_gpu` sets a number |
| prompt cache, checkpoints | llama-server's defaults, up to 8 GiB of host memory: switched off in the plan |

The finding `ollama_settings` has the lines of the Modelfile and the environment of `ollama serve`;
`ollama_default_context` says what would be served without.
"""

_LLAMA_CPP_PYTHON = """
## llama-cpp-python

`--engine llama-cpp-python` plans, starts and measures the server of llama-cpp-python (`python -m
llama_cpp.server`), which is never taken unasked. `ropewalk engine add llama-cpp-python` compiles it in an
environment of its own: 13 minutes on two cores, and a C++ compiler is needed. The rules are llama.cpp's with
these differences (0.3.36):

| | llama-server | llama-cpp-python |
|---|---|---|
| sequences at once | `-np` | one; another waits |
| past the trained context without scaling | capped at it | served, whatever comes out |
| sliding windows | window and one batch | the whole length (`window_kept_whole`) |
| compute buffer | one row of logits per slot | a row for each token of a batch, of which one is used |
| prompts | token ids | text: sent only where the server's tokenizer makes exactly the planned ids of it |
| chat template | `/apply-template` | in `/v1/chat/completions` alone: `measure` asks in plain text |
| probabilities, timings, load | yes | no: `serve` shows no load, `measure` no speed |

What its defaults cost, and what a plan writes in their place:

| default | planned | why |
|---|---|---|
| `--n_ctx 2048` | the planned length, in whole 256 | longer prompts are refused |
| `--logits_all true` | `false` | keeps `n_ctx` x vocabulary numbers of 4 bytes |
| `--flash_attn false` | `true` | needed by a quantised V cache, and the scores take no memory |
| `--use_mlock true` | `false` | pins the weights in memory |
| `--yarn_beta_fast 32`, `--yarn_beta_slow 1`, `--yarn_attn_factor 1` | `-1` | would replace the file's |
| variables: `N_CTX`, ...; `HOST` and `PORT` even before the command line | taken out | another server |

SmolLM2-135M at `--n_ctx 8192` after a prompt of 7,900 tokens, resident memory on a CPU: **389 MiB** with
`--logits_all false`, **2,044 MiB** as it comes.
"""

_CACHE_TYPES = """
## Cache types

A row of keys or values takes `head_dim / block x bytes` per head and token. `auto` is f16 on llama.cpp
and the model's dtype on vLLM (16 bits for a float32 model) and transformers. On llama.cpp keys and values
may differ; a quantised V cache needs flash attention. A head's width must divide by the block."""

_MEMORY = f"""
## What may be used of a device

| engine | of `--memory` |
|---|---|
| vLLM on a GPU | {vllm_settings.UTILIZATION_PERCENT} % of it, the default `--gpu-memory-utilization` |
| vLLM on a CPU, llama-server, llama-cpp-python, transformers | all of it |
"""
