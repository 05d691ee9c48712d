"""Why the planned ``vllm serve`` command has options that nobody asked for."""

from __future__ import annotations

from ropewalk.serving.engines.explained import Reason

REASONS: tuple[Reason, ...] = (
    Reason(("--host", "--port"), "only this machine reaches it, at vLLM's usual port"),
    Reason(("--served-model-name",), "the name that requests give"),
    Reason(("--revision",), "the revision that was inspected"),
    Reason(
        ("--max-num-seqs",),
        "requests at once, as planned; others wait (--sequences N)",
        ("num_sequences",),
    ),
    Reason(
        ("--gpu-memory-utilization",),
        "the share of the device that the plan counts with",
    ),
    Reason(
        ("--kv-cache-memory-bytes",),
        "the planned cache, instead of all memory that is left",
        ("kv_cache_memory_bytes",),
    ),
    Reason(
        ("--max-num-batched-tokens",),
        "tokens of one step, by which the activations are sized",
        ("max_batched_tokens",),
    ),
    Reason(("--hf-overrides",), "the rope scaling and the length that it allows"),
    Reason(("--enable-prompt-tokens-details",), "answers say how much of a prompt was cached"),
)
