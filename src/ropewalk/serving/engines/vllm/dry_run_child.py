"""Runs in vLLM's interpreter and asks vLLM itself: would it start, and what would it allocate?

Each line of standard input is a question, ``{"argv": [MODEL, FLAG, ...], "available": BYTES}``: the arguments
of ``vllm serve``, and what the KV cache may take where they do not say it. ``"partition": [BLOCKS, ...]``
plans the ranks of a pipeline instead of one, ``available`` then being a list. Each answer is a line ``MARK``
and JSON on standard output (vLLM writes its log there too), with ``refusal`` where vLLM would refuse,
``unable`` where this vLLM cannot be asked so. The model is made on torch's meta device: no weight is read
or allocated.

Imports nothing of ropewalk and nothing of vLLM before a question is there. Checked with vLLM 0.32.0, without
tensor parallel; the steps are those of its engine core (v1/engine/core.py, _initialize_kv_caches).
"""

from __future__ import annotations

import json
import sys
import tempfile
from bisect import bisect_right
from importlib import import_module
from itertools import accumulate
from typing import Any

MARK = "ropewalk: "


def main() -> int:
    """Read one request per line and write one answer per line."""
    with tempfile.NamedTemporaryFile() as meeting:  # torch's process groups meet there, even a group of one
        for line in sys.stdin:
            sys.stdout.write(MARK + json.dumps(_answer(json.loads(line), meeting.name)) + "\n")
            sys.stdout.flush()
    return 0


def _answer(question: dict[str, Any], meeting: str) -> dict[str, Any]:
    """The plan of a start. An error of vLLM's own checks is its refusal; one of making the model here may be
    due to how it is made here, as one of an import is to another version."""
    model, *flags = question["argv"]
    try:
        vllm = _Vllm()
        try:
            config = vllm.config_of(model, flags)
        except ValueError as error:  # pydantic's validation errors are such
            return {"refusal": f"{type(error).__name__}: {error}"}
        network = vllm.network_of(config, meeting)
        specs = vllm.specs_of(config)
        try:
            stages = vllm.stages_of(specs, question["partition"]) if "partition" in question else [specs]
            return vllm.plan_of(config, network, stages, available=question["available"])
        except ValueError as error:
            return {"refusal": f"{type(error).__name__}: {error}"}
    except (Exception, SystemExit) as error:
        return {"unable": f"{type(error).__name__}: {error}"}


class _Vllm:
    """The parts of vLLM that plan a start, by their places in 0.32. Nothing is kept between two starts."""

    def __init__(self) -> None:
        self.torch = import_module("torch")
        self.args = import_module("vllm.engine.arg_utils").AsyncEngineArgs
        self.parser = import_module("vllm.utils.argparse_utils").FlexibleArgumentParser
        self.server = import_module("vllm.usage.usage_lib").UsageContext.OPENAI_API_SERVER
        self.config = import_module("vllm.config")
        self.parallel = import_module("vllm.distributed")
        self.platform = import_module("vllm.platforms").current_platform
        self.loader = import_module("vllm.model_executor.model_loader.utils")
        self.dtypes = import_module("vllm.utils.torch_utils")
        self.layer_type = import_module("vllm.model_executor.layers.attention_layer_base").AttentionLayerBase
        self.managers = import_module("vllm.v1.core.single_type_kv_cache_manager")
        self.layouts = import_module("vllm.v1.attention.backends.utils")
        self.connector = import_module("vllm.distributed.kv_transfer.kv_connector.utils")
        self.worker = import_module("vllm.v1.worker.utils")
        self.naming = import_module("vllm.model_executor.models.utils")
        self.attention = import_module("vllm.v1.kv_cache_interface").AttentionSpec
        self.planning = import_module("vllm.v1.core.kv_cache_utils")

    def config_of(self, model: str, flags: list[str]) -> Any:
        """The whole configuration, checked as a start checks it."""
        # The flags of the HTTP server are not the engine's, and change no memory.
        arguments, _ = self.args.add_cli_args(self.parser()).parse_known_args(flags)
        arguments.model = model
        return self.args.from_cli_args(arguments).create_engine_config(usage_context=self.server)

    def plan_of(
        self, config: Any, network: Any, stages: list[dict[str, Any]], *, available: int | list[int]
    ) -> dict[str, Any]:
        """What would be allocated on the first rank; raises where one request would not fit."""
        size = config.cache_config.kv_cache_memory_bytes or available
        sizes = size if isinstance(size, list) else [size] * len(stages)
        cache, *_ = self.planning.get_kv_cache_configs(config, stages, sizes)
        tokens, concurrency = self.planning.get_kv_cache_capacity(config, cache)
        return {
            "weights_bytes": sum(one.numel() * one.element_size() for one in network.parameters()),
            # Each says the size of the one allocation that all of them lie in.
            "cache_bytes": max((tensor.size for tensor in cache.kv_cache_tensors), default=0),
            "num_blocks": cache.num_blocks,
            "block_size": config.cache_config.block_size,
            "tokens": tokens,
            "max_concurrency": concurrency,
            "context_len": config.model_config.max_model_len,
        }

    def stages_of(self, specs: dict[str, Any], partition: list[int]) -> list[dict[str, Any]]:
        """The layers of each stage, by the number in their names."""
        ends = list(accumulate(partition))
        stages: list[dict[str, Any]] = [{} for _ in partition]
        for name, spec in specs.items():
            stages[bisect_right(ends, self.naming.extract_layer_index(name))][name] = spec
        return stages

    def network_of(self, config: Any, meeting: str) -> Any:
        """The model as modules whose parameters have shapes and no storage."""
        with self.config.set_current_vllm_config(config):
            self.parallel.init_distributed_environment(
                world_size=1,
                rank=0,
                local_rank=0,
                distributed_init_method=f"file://{meeting}",
                backend="gloo",
            )
            self.parallel.destroy_model_parallel()
            self.parallel.initialize_model_parallel()
            with self.dtypes.set_default_torch_dtype(config.model_config.dtype), self.torch.device("meta"):
                return self.loader.initialize_model(config)

    def specs_of(self, config: Any) -> dict[str, Any]:
        """What each layer keeps (v1/worker/gpu_model_runner.py, get_kv_cache_spec), blocks as they end up."""
        self.platform.update_block_size_for_backend(config)
        self.managers.register_all_kvcache_specs(config)
        specs = {}
        for name, layer in self.config.get_layers_from_vllm_config(config, self.layer_type).items():
            if getattr(layer, "kv_sharing_target_layer_name", None):
                continue
            spec = layer.get_kv_cache_spec(config)
            if isinstance(spec, self.attention):
                spec = self.worker.customize_attention_spec(layer.get_attn_backend(), spec)
            if spec:
                specs[name] = spec
        backends = self.connector.get_current_attn_backends(config)
        names = [layout.name for layout in self.layouts.get_supported_kv_cache_layouts(backends)]
        self.layouts.resolve_kv_cache_layout(config, [names], specs.values())
        return specs


if __name__ == "__main__":
    sys.exit(main())
