"""Why the planned ``llama-server`` command has options that nobody asked for."""

from __future__ import annotations

from ropewalk.serving.engines.explained import Reason

REASONS: tuple[Reason, ...] = (
    Reason(("-a",), "the name that requests give"),
    Reason(("-c",), "the whole cache: tokens per request x slots"),
    Reason(
        ("-np",),
        "requests at once, as planned; others wait (--sequences N)",
        ("num_sequences",),
    ),
    Reason(("--no-kv-unified",), "each slot has its own part of the cache"),
    Reason(("-b", "-ub"), "llama.cpp's own batches, which size its buffers", ("batch", "ubatch")),
    Reason(("-ctk", "-ctv"), "the cache types planned for", ("cache_type_k", "cache_type_v")),
    Reason(("-fa",), "flash attention; a quantised value cache needs it", ("flash_attn",)),
    Reason(
        ("--cache-ram", "--ctx-checkpoints"),
        "no caches in host memory beside the plan",
        ("cache_ram_bytes", "context_checkpoints"),
    ),
    Reason(("-fit",), "the plan decides what fits, not llama.cpp"),
    Reason(
        ("--rope-scaling", "--rope-scale", "--rope-freq-scale", "--yarn-orig-ctx", "--yarn-attn-factor"),
        "the rope scaling",
    ),
    Reason(("--override-kv",), "lifts the length in the file's header, at which slots would end"),
    Reason(("-ngl",), "layers on the GPU, as planned", ("gpu_layers", "fit")),
    Reason(("-t",), "cores that are idle here"),
    Reason(("--host", "--port"), "only this machine reaches it, at the usual port"),
    Reason(("--metrics",), "load and speed can be read"),
    Reason(("-lv",), "the log names its buffers, to be held against the plan"),
)
