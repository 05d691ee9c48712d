"""The dimensions that every formula of the planner reads."""

from __future__ import annotations

from dataclasses import dataclass

from ropewalk.inspector.layer_kinds import LayerGroup
from ropewalk.inspector.records import Block, Format, WeightBytes


@dataclass(frozen=True, slots=True)
class Draft:
    """What proposes tokens: its layers keep a cache as long as the target's.

    ``model`` are the dimensions of a model of its own, None where the target's MTP layers draft;
    ``shared_bytes`` of the weights may be those of the target.
    """

    layers: tuple[LayerGroup, ...]
    weights_bytes: int
    model: ModelShape | None = None
    shared_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Dimensions of one model; None where the checkpoint does not tell.

    ``dtype_bytes`` is the width it computes and caches in by default (2 unless the config says float32).
    ``expert_len`` is the inner width of one routed expert, ``num_experts`` 0 for a dense model. The
    ``latent_*`` dims are those of latent attention after keys and values are projected up. ``weights``
    are estimated from the dimensions where ``has_tensors`` is False. ``delta_net`` says that recurrent layers
    keep a matrix of keys and values (not Mamba's state), ``quantised`` that weights are stored so,
    ``packed_weights`` that they have fewer than eight bits, ``packs_experts_only`` only the experts,
    ``gated`` that feed-forwards have three matrices. ``rope_numbers`` are the cosines and sines of all
    positions, ``dense_blocks`` how many first ones have no experts though others do. ``encoder_len`` None
    says that the encoder reads the prompt, so that it is as long as the context. ``is_sound`` is False where
    the inspection found an error: no size is exact then.
    ``expected_bytes`` is about what all weights take where tensors are missing, 0 where none is.
    ``parallel_block``: attention and feed-forward read the same; ``per_layer_len`` is the width of the inputs
    that every block gets of its own, of all blocks together.
    ``image_tokens`` stand for one image, 0 where that is not stated; ``sees_both_ways``: they attend to each
    other in both directions. ``scan_chunk`` is how many tokens a scan of states takes at once
    (2,048 where the config states none, as vLLM has it). ``counted``: a bare config of this type tells its
    weights within 3 %.
    """

    stored_as: Format
    layers: tuple[LayerGroup, ...]
    num_layers: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    num_attention_heads: int
    dtype_bytes: int
    num_experts: int
    num_experts_per_tok: int
    expert_len: int
    shared_expert_len: int
    tied: bool
    mtp_layers: int
    encoder_len: int | None
    active_parameters: int | None
    kv_lora_rank: int
    q_lora_rank: int
    latent_key_dim: int
    latent_value_dim: int
    latent_rotary_dim: int
    state_dtype_bytes: int
    weights: WeightBytes
    has_tensors: bool
    block: Block | None
    draft: Draft | None = None
    projector_bytes: int = 0
    gated: bool = True
    parallel_block: bool = False
    per_layer_len: int = 0
    relative_positions: bool = False
    encoder_only: bool = False
    delta_net: bool = False
    quantised: bool = False
    packed_weights: bool = False
    is_sound: bool = True
    expected_bytes: int = 0
    packs_experts_only: bool = False
    rope_numbers: int = 0
    dense_blocks: int = 0
    model_type: str | None = None
    per_layer_input_len: int = 0
    image_tokens: int = 0
    sees_both_ways: bool = False
    scan_chunk: int = 2048
    counted: bool = False

    @property
    def has_dense_blocks(self) -> bool:
        """Whether some blocks of a model with experts have none (the first ones of DeepSeek-V3)."""
        return not all(self.weights.experts)

    @property
    def pools_tokens(self) -> bool:
        """Whether layers keep one row for several tokens: no engine's layout of those was checked."""
        return any(group.compress_ratio for group in self.layers)

    @property
    def cached_layers(self) -> tuple[LayerGroup, ...]:
        """The layers and behind them those of a draft, numbered on, as where all share one pool."""
        if self.draft is None:
            return self.layers
        return self.layers + tuple(
            group.at(tuple(self.num_layers + index for index in group.indices)) for group in self.draft.layers
        )
