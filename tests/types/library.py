"""Model types as the installed transformers builds them: on the meta device, without a byte of weights."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
TOKENS = 64
_MAPPINGS = ("CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "SPEECH_SEQ_2_SEQ")


@dataclass(frozen=True, slots=True)
class Built:
    """A type with its class defaults: the config as it is saved, parameters, shapes, and what it caches.

    ``cached`` is (elements of keys and values, elements of state) after 64 tokens; None where the model
    cannot run without data.
    """

    config: dict[str, Any]
    parameters: int
    tensors: dict[str, tuple[int, ...]]
    tied: frozenset[str]
    cached: tuple[int, int] | None

    def write(self, folder: Path) -> Path:
        """The same as a sparse checkpoint."""
        text = self.config.get("text_config") or {}
        is_tied = self.config.get("tie_word_embeddings", text.get("tie_word_embeddings"))
        header: dict[str, Any] = {}
        end = 0
        for name, shape in self.tensors.items():
            if is_tied and name in self.tied:
                continue
            start, end = end, end + 2 * prod(shape)
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
        raw = json.dumps(header).encode()
        (folder / "config.json").write_text(json.dumps(self.config, default=str))
        with (folder / "model.safetensors").open("wb") as stream:
            stream.write(struct.pack("<Q", len(raw)) + raw)
            stream.truncate(8 + len(raw) + end)
        return folder


def generating_types() -> dict[str, str]:
    """Every type that generates text, and the class that does."""
    from transformers.models.auto import modeling_auto

    found: dict[str, str] = {}
    for name in _MAPPINGS:
        for model_type, cls in getattr(modeling_auto, f"MODEL_FOR_{name}_MAPPING_NAMES", {}).items():
            found.setdefault(model_type, cls if isinstance(cls, str) else cls[0])
    return found


def build(model_type: str, cls: str) -> Built:
    """The model with its class defaults. Raises whatever the library raises where it cannot be built so."""
    import torch
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config = CONFIG_MAPPING[model_type]()
    for part in (config, getattr(config, "text_config", None)):
        if part is not None:
            part._experts_implementation = "batched_mm"  # the others ask for values
    with torch.device("meta"):
        model = getattr(transformers, cls)._from_config(config).eval()
    names = dict(model.named_parameters(remove_duplicate=False))
    first = {id(parameter): name for name, parameter in reversed(names.items())}
    saved = {**config.to_dict(), "architectures": [cls], "transformers_version": transformers.__version__}
    return Built(
        config=json.loads(json.dumps(saved, default=str)),
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        tensors={name: tuple(value.shape) for name, value in model.state_dict().items()},
        tied=frozenset(name for name, parameter in names.items() if first[id(parameter)] != name),
        cached=_cached(model, is_encoder_decoder=bool(config.is_encoder_decoder)),
    )


def _cached(model: Any, *, is_encoder_decoder: bool) -> tuple[int, int] | None:
    import torch

    ids = torch.zeros((1, TOKENS), dtype=torch.long, device="meta")
    more = {"decoder_input_ids": ids} if is_encoder_decoder else {}
    try:
        with torch.no_grad():
            output = model(input_ids=ids, use_cache=True, **more)
        cache = output.past_key_values if "past_key_values" in output else output.cache_params
        layers = getattr(cache, "self_attention_cache", cache).layers
    except Exception:  # pictures or sound are asked for, or a value of a tensor that has none
        return None
    kv = state = 0
    for name, tensor in (entry for layer in layers for entry in _tensors(layer)):
        if name in ("keys", "values"):
            kv += tensor.numel()
        elif tensor.dim() > 1:
            state += tensor.numel()
    return kv, state


def _tensors(layer: Any) -> Iterator[tuple[str, Any]]:
    import torch

    for name, value in vars(layer).items():
        values = (
            value.values()
            if isinstance(value, dict)
            else value
            if isinstance(value, list | tuple)
            else [value]
        )
        for item in values:
            if torch.is_tensor(item):
                yield name, item
