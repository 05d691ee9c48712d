"""Why the planned command of llama-cpp-python's server has options that nobody asked for."""

from __future__ import annotations

from ropewalk.serving.engines.explained import Reason

REASONS: tuple[Reason, ...] = (
    Reason(("--model_alias",), "the name that requests give; it does not depend on where the file is"),
    Reason(
        ("--n_batch", "--n_ubatch"),
        "llama.cpp's own batch sizes, by which its buffers are sized",
        ("batch", "ubatch"),
    ),
    Reason(("--logits_all", "--cache", "--use_mlock"), "nothing is kept in memory beside the plan"),
    Reason(("--flash_attn",), "flash attention; the library's default is without", ("flash_attn",)),
    Reason(("--type_k", "--type_v"), "the cache types planned for", ("cache_type_k", "cache_type_v")),
    Reason(("--rope_scaling_type", "--rope_freq_scale", "--yarn_orig_ctx"), "the rope scaling"),
    Reason(
        ("--yarn_attn_factor", "--yarn_beta_fast", "--yarn_beta_slow"),
        "what the file says of YaRN holds, instead of the library's own numbers",
    ),
    Reason(("--n_gpu_layers",), "layers on the GPU, as planned", ("gpu_layers", "fit")),
    Reason(("--n_threads", "--n_threads_batch"), "cores that are idle here"),
    Reason(("--host", "--port"), "only this machine reaches it"),
)
