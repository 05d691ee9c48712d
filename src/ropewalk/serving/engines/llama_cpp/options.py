"""Why the planned ``llama-server`` command has options that nobody asked for."""

from __future__ import annotations

from ropewalk.serving.engines.explained import Reason

REASONS: tuple[Reason, ...] = (
    Reason(("-a",), "the name that requests give; it does not depend on where the file is"),
    Reason(("-c",), "the whole cache, which the slots share: tokens per request x slots"),
    Reason(
        ("-np",),
        "requests served at once, as planned; further ones wait (--sequences N plans for more)",
        ("num_sequences",),
    ),
    Reason(("--no-kv-unified",), "each slot has its own part of the cache, as planned"),
    Reason(("-b", "-ub"), "llama.cpp's own batch sizes, by which its buffers are sized", ("batch", "ubatch")),
    Reason(("-ctk", "-ctv"), "the cache types planned for", ("cache_type_k", "cache_type_v")),
    Reason(("-fa",), "flash attention; a quantised value cache needs it", ("flash_attn",)),
    Reason(
        ("--cache-ram", "--ctx-checkpoints"),
        "no caches in host memory beside the plan",
        ("cache_ram_bytes", "context_checkpoints"),
    ),
    Reason(("-fit",), "the plan decides what fits; llama.cpp would change the length or the placement"),
    Reason(
        ("--rope-scaling", "--rope-scale", "--rope-freq-scale", "--yarn-orig-ctx", "--yarn-attn-factor"),
        "the rope scaling",
    ),
    Reason(("--override-kv",), "lifts the length in the file's header, at which slots would end"),
    Reason(("-ngl",), "layers on the GPU, as planned", ("gpu_layers", "fit")),
    Reason(("-t",), "cores that are idle here"),
    Reason(("--host", "--port"), "only this machine reaches it, at llama-server's usual port"),
    Reason(("--metrics",), "load and speed can be read"),
    Reason(("-lv",), "the log names the sizes of the buffers, which are held against the plan"),
)
