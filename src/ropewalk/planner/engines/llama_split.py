"""How ``--split-mode row`` and ``tensor`` cut matrices and caches over several GPUs.

Row (CUDA until b9889): the rows of every plain matrix, caches stay with their blocks. Tensor: matrices and
caches, all else is repeated on each device (src/llama-model.cpp:379-884, llama.cpp b11434). Each device's
compute buffer is as large as one device's alone: the allocator sizes whole tensors
(ggml/src/ggml-backend-meta.cpp:315, 1697).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ropewalk.errors import UsageError
from ropewalk.findings import Finding
from ropewalk.planner.engines import llama_builds as builds
from ropewalk.planner.records import PlanRequest, SplitMode
from ropewalk.planner.shape import ModelShape

# Matrices that tensor mode cuts, src/llama-model.cpp:386-428; the rest is mirrored.
_CUT = re.compile(
    r"blk\.[\d*]+\.(?:attn_(?:q|k|v|qkv|output|gate)|ssm_(?:alpha|beta|ba|conv1d|out)|"
    r"ffn_(?:up|gate|gate_up|down)(?:_exps)?)\.weight|output\.weight"
)
# Row mode cuts what is multiplied as a plain matrix, a tied head too: no experts (#13919), no norms.
_ROWS = re.compile(r"(?:blk\.[\d*]+\.(?!\w*norm|\w*_exps|ssm_conv1d)\w+|output|token_embd)\.weight")
# No rule for the parts of these (llm_arch_supports_sm_tensor, src/llama-arch.cpp:1196).
WITHOUT_TENSOR = frozenset({
    "grok", "mpt", "plamo2", "minicpm3", "gemma3n", "mamba", "mamba2", "jamba", "falcon-h1", "olmo2",
    "olmoe", "deepseek2", "deepseek32", "hy-v4", "dots3note", "glm-dsa", "bitnet", "t5", "nemotron_h",
    "nemotron_h_moe", "granitehybrid", "minimax-01", "minimax-m2", "minimax-m3", "mistral4", "kimi-linear",
    "bailingmoe3", "kimi-k3", "glm5-next", "qwen3tts",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cut:
    """The split mode with each device's share of what is cut."""

    mode: SplitMode
    shares: tuple[float, ...]

    def pieces(self, name: str, home: int, size: int, largest: int) -> Iterator[tuple[int, int, int]]:
        """What a tensor that is at ``home`` takes on each device: device, bytes, bytes of the largest matrix
        of a block among them."""
        if self.mode not in ("row", "tensor") or home >= len(self.shares):
            yield home, size, largest
        elif (_CUT if self.mode == "tensor" else _ROWS).fullmatch(name):
            yield from ((device, int(size * share), 0) for device, share in enumerate(self.shares))
        elif self.mode == "tensor":
            yield from ((device, size, 0) for device in range(len(self.shares)))
        else:
            yield home, size, 0

    @property
    def cuts_caches(self) -> bool:
        """Whether every device has a part of every layer."""
        return self.mode == "tensor"


def cut_of(request: PlanRequest, budgets: Sequence[int | None]) -> Cut:
    """How the matrices go to the devices: as ``--tensor-split`` says; else rows by the devices' memory, and
    all in equal parts in tensor mode."""
    count = len(budgets)
    given = request.tensor_split or (
        [1.0] * count if request.split_mode == "tensor" else [float(budget or 1) for budget in budgets]
    )
    total = sum(given) or 1.0
    return Cut(request.split_mode, tuple(share / total for share in given))


def check_split(shape: ModelShape, request: PlanRequest) -> None:
    """Raise :class:`UsageError` for a split mode that the build does not have, or not for the model."""
    where = {"flag": "--split-mode", "value": request.split_mode, "allowed": ["layer", "none"]}
    if request.split_mode == "row" and builds.ROW_GONE.surely(request.engine_version):
        message = "--split-mode row is gone from CUDA's builds as of b9890 (#24216): layer, or tensor"
        raise UsageError(message, where={**where, "allowed": ["layer", "none", "tensor"]})
    if request.split_mode == "tensor" and any(group.kind == "latent" for group in shape.layers):
        raise UsageError("--split-mode tensor has no rule for latent attention: layer, or none", where=where)


def split_findings(request: PlanRequest) -> list[Finding]:
    """Tensor mode computes with flash attention only."""
    if request.split_mode != "tensor" or request.flash_attn != "off":
        return []
    message = "--split-mode tensor needs flash attention, which is switched off"
    where = {"flag": "--flash-attn", "flash_attn": "off", "split_mode": "tensor"}
    return [Finding("split_mode_unsupported", "error", message, where)]
