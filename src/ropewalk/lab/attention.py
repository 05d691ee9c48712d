"""A checkpoint and a prompt to one head's attention, computed by hand and held against eager and sdpa."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from ropewalk.errors import UsageError
from ropewalk.inspector.checkpoint import open_checkpoint
from ropewalk.inspector.inspection import inspect_checkpoint
from ropewalk.inspector.records import Checkpoint
from ropewalk.lab import checks
from ropewalk.lab.decoder import Decoder, decoder_of
from ropewalk.lab.eager import EAGER_SQUARES, eager_attention, sdpa_attention
from ropewalk.lab.forward import Projected, finish_block, load_block, logits_of, project, turn_at, visible
from ropewalk.lab.head import Head, head_of
from ropewalk.lab.prompt import tokens_of_ids, tokens_of_text
from ropewalk.lab.records import Attention, Check, Held, Squares, Token
from ropewalk.lab.weights import Weights
from ropewalk.serving.host.devices import find_devices
from ropewalk.units import format_bytes

LISTED_LEN = 128  # tokens; the squares of a longer prompt are computed and checked, not listed
_FLOAT_BYTES = 4
_BATCH = 2  # the prompt, and the same with another last token
_TOLERANCE = 1e-5  # float32 keeps seven digits; weights are at most 1


class PromptTooLongError(UsageError):
    """The squares of the prompt do not fit into memory; the size is reported."""

    exit_status = 1  # a verdict
    default_code = "does_not_fit"


def attend(
    source: str | Path,
    *,
    prompt: str | None = None,
    tokens: Sequence[int] = (),
    layer: int = 0,
    head: int = 0,
    logits: bool = True,
    memory_bytes: int | None = None,
) -> Attention:
    """One head's attention over ``prompt``, or over token ids.

    Weights are read block by block up to ``layer``, and with ``logits`` to the last, so that no more than one
    block is held; all in float32 on the processor. ``memory_bytes`` is what the squares may take, without it
    what is free here. Raises :class:`UsageError` for a layer or head that is not there and a layout that is
    not covered, :class:`PromptTooLongError`, :class:`CheckpointError`.
    """
    checkpoint = open_checkpoint(source)
    decoder = decoder_of(checkpoint, inspect_checkpoint(checkpoint))
    _require_below("layer", layer, decoder.num_hidden_layers)
    _require_below("head", head, decoder.num_attention_heads)
    seen = tokens_of_ids(tokens) if prompt is None else tokens_of_text(decoder.folder, prompt)
    for token in seen:
        _require_below("token id", token.id, decoder.vocab_size)
    _require_room(decoder, len(seen), memory_bytes)
    with torch.inference_mode():
        return _Run(checkpoint, decoder, seen, layer).attention(head, logits=logits)


def square_bytes(decoder: Decoder, tokens: int) -> int:
    """One square of scores of all heads in float32."""
    return decoder.num_attention_heads * tokens**2 * _FLOAT_BYTES


def _require_below(name: str, value: int, count: int) -> None:
    if not 0 <= value < count:
        raise UsageError(
            f"{name} {value} is not there: the checkpoint has 0 to {count - 1}",
            where={"flag": f"--{name.split()[0]}", "given": value, "count": count},
        )


def _require_room(decoder: Decoder, tokens: int, memory_bytes: int | None) -> None:
    free = find_devices()[-1].free_bytes if memory_bytes is None else memory_bytes
    square = square_bytes(decoder, tokens)
    needed = _BATCH * EAGER_SQUARES * square
    if free is not None and needed > free:
        raise PromptTooLongError(
            f"the prompt of {tokens:,} tokens is too long to be shown: its square of scores is "
            f"{decoder.num_attention_heads} heads x {tokens:,}^2 x {_FLOAT_BYTES} bytes = "
            f"{format_bytes(square)}; the eager path holds {EAGER_SQUARES} of them for each of {_BATCH} "
            f"prompts, {format_bytes(needed)}, and {format_bytes(free)} are free",
            where={"tokens": tokens, "square_bytes": square, "needed_bytes": needed, "free_bytes": free},
        )


class _Run:
    """One pass through the blocks, and what is said about the layer in question."""

    def __init__(
        self, checkpoint: Checkpoint, decoder: Decoder, tokens: tuple[Token, ...], layer: int
    ) -> None:
        self._checkpoint, self._decoder = checkpoint, decoder
        self._tokens, self._layer = tokens, layer
        self._weights = Weights(decoder.folder, checkpoint.tensors)
        self._group = decoder.group(layer)

    def attention(self, head: int, *, logits: bool) -> Attention:
        projected, final = self._forward(logits)
        decoder, count = self._decoder, len(self._tokens)
        kv_head = head // decoder.gqa_ratio
        mask = visible(count, self._group.window)
        seen = head_of(projected, head=head, kv_head=kv_head, mask=mask)
        held = tuple(_held(projected, seen, head))
        tried = tuple(self._checks(projected, seen, head, final, logits=logits))
        return Attention(
            checkpoint=self._checkpoint.source,
            layer=self._layer,
            head=head,
            kv_head=kv_head,
            gqa_ratio=decoder.gqa_ratio,
            head_dim=decoder.head_dim,
            window=self._group.window,
            rotary=self._rotary(self._layer),
            scale=decoder.head_dim**-0.5,
            attention_factor=decoder.rotation(count).attention_factor,
            tokens=self._tokens,
            squares=_squares(seen) if count <= LISTED_LEN else None,
            held=held,
            checks=tried,
            square_bytes=square_bytes(decoder, count),
            weight_bytes_read=self._weights.bytes_read,
            torch_version=str(torch.__version__),
            ok=all(one.ok for one in held) and all(one.ok for one in tried),
        )

    def _forward(self, logits: bool) -> tuple[Projected, torch.Tensor]:
        """The layer's projections of the prompt, and what leaves the last block that was run, or its logits,
        of the prompt and of the same with another last token."""
        decoder, weights = self._decoder, self._weights
        ids = [token.id for token in self._tokens]
        other = [*ids[:-1], (ids[-1] + 1) % decoder.vocab_size]
        embedding = f"{decoder.prefix}embed_tokens.weight"
        x = torch.stack([weights.rows(embedding, row) for row in (ids, other)])
        turn = turn_at(decoder, torch.arange(len(ids)), seq_len=len(ids))
        kept: dict[int, Projected] = {}
        for layer in range(decoder.num_hidden_layers if logits else self._layer + 1):
            block = load_block(weights, decoder, layer)
            projected = project(x, block, decoder, turn if self._rotary(layer) else None)
            if layer == self._layer:
                kept[layer] = projected.of_first()
            mask = visible(len(ids), decoder.group(layer).window)
            x = finish_block(x, projected, block, mask=mask, eps=decoder.rms_norm_eps)
        return kept[self._layer], logits_of(x, weights, decoder) if logits else x

    def _rotary(self, layer: int) -> bool:
        return self._decoder.group(layer).rotary is not False

    def _checks(
        self, projected: Projected, seen: Head, head: int, final: torch.Tensor, *, logits: bool
    ) -> Iterator[Check]:
        yield checks.rows_sum_to_one(seen)
        if len(self._tokens) > 1:
            what = "logits" if logits else f"states after layer {self._layer}"
            yield checks.later_token(final[0], final[1], what=what)
        if self._rotary(self._layer):
            yield checks.equal_distances(projected, self._decoder, head=head)
        yield checks.kv_head_serves(projected, self._decoder, seen.mask)


def _held(projected: Projected, seen: Head, head: int) -> Iterator[Held]:
    """The head by hand against all heads at once: eager, and sdpa by the backend that torch picks."""
    query, key, value = (
        part[None] for part in (projected.turned_query, projected.turned_key, projected.value)
    )
    weights, output = eager_attention(query, key, value, seen.mask)
    tolerance = _TOLERANCE * max(1.0, float(value.abs().max()))
    yield Held("eager", "weights", _apart(weights[0, head], seen.weights), _TOLERANCE)
    yield Held("eager", "output", _apart(output[0, head], seen.output), tolerance)
    output = sdpa_attention(query, key, value, seen.mask)
    yield Held("sdpa", "output", _apart(output[0, head], seen.output), tolerance)


def _apart(first: torch.Tensor, second: torch.Tensor) -> float:
    return float((first - second).abs().max())


def _squares(seen: Head) -> Squares:
    return Squares(*(tuple(map(tuple, part.tolist())) for part in (seen.scores, seen.mask, seen.weights)))
