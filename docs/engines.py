"""``engines.md``: what changes with the version of an engine, and which cache types each takes."""

from __future__ import annotations

from collections.abc import Mapping

from docs.markdown import code, table
from ropewalk.planner.caches import CacheType
from ropewalk.planner.engines import llama_server, transformers, vllm, vllm_capacity
from ropewalk.planner.rope.versions import RULES, VersionRule


def engines_page() -> str:
    """The whole page."""
    own = [rule for rule in vars(vllm_capacity).values() if isinstance(rule, VersionRule)]
    return "\n".join(
        [
            _INTRODUCTION,
            table("engine", "since", "what changed", "source", rows=map(_rule, (*RULES, *own))),
            _CACHE_TYPES,
            _types("llama-server", llama_server.CACHE_TYPES),
            _types("vLLM on a GPU", vllm.GPU_TYPES),
            f"\nOn a CPU vLLM takes {code(vllm.CPU_TYPES)}.\n",
            _types("transformers", transformers.CACHE_TYPES),
            _MEMORY,
        ]
    )


def _rule(rule: VersionRule) -> list[str]:
    number = ".".join(map(str, rule.since))
    return [rule.engine, f"b{number}" if rule.engine == "llama-server" else number, rule.change, rule.source]


def _types(engine: str, types: Mapping[str, CacheType]) -> str:
    return f"\n### {engine}\n" + table("type", "block", "bytes of a block", rows=map(_type, types.values()))


def _type(kind: CacheType) -> list[str]:
    beside = f" and {kind.head_bytes} per head and token" if kind.head_bytes else ""
    values = "1 value" if kind.block_len == 1 else f"{kind.block_len} values"
    return [f"`{kind.name}`", values, f"{kind.block_bytes}{beside}"]


_INTRODUCTION = """# Engines and versions

The rules were read and checked in vLLM 0.32 and 0.33, llama.cpp b11434 and b11549 (the wheel of the embedded
engine) and transformers 5.24. Engines change every few weeks: `ropewalk doctor` shows which ones are
installed, `ropewalk plan --confirm` asks the installed one to work out its memory itself, and
`ropewalk serve --verify` fills the context once and looks whether the rope is really scaled.

## Which engine is taken

`--engine-path`, else the environment variable (`ROPEWALK_LLAMA_SERVER`, `ROPEWALK_VLLM`), else the search
path, else what stands beside ropewalk or was installed by `ropewalk engine add`. Each may be a program or,
for vLLM, the Python interpreter of its environment.

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

_CACHE_TYPES = """
## Cache types

A row of keys or values takes `head_dim / block x bytes` per head and token. `auto` is f16 on llama-server
and the model's dtype on vLLM (16 bits for a float32 model) and transformers. On llama-server keys and values
may differ; a quantised V cache needs flash attention. A head's width must divide by the block."""

_MEMORY = f"""
## What may be used of a device

| engine | of `--memory` |
|---|---|
| vLLM on a GPU | {vllm.UTILIZATION_PERCENT} % of it, the default `--gpu-memory-utilization` |
| vLLM on a CPU, llama-server, transformers | all of it |
"""
