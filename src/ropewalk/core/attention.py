"""One head of attention by hand, and its kernels timed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ropewalk.core.arguments import Source, public, source_of
from ropewalk.core.reading import inspection_of
from ropewalk.errors import EngineMissingError, UsageError
from ropewalk.validation import require_type, tuple_of

if TYPE_CHECKING:
    from ropewalk.inspector.records import Inspection
    from ropewalk.lab.records import Attention, Kernels


@public
def attend(
    source: Source,
    *,
    prompt: str | None = None,
    tokens: Sequence[int] = (),
    layer: int = 0,
    head: int = 0,
    logits: bool = True,
    memory_bytes: int | None = None,
) -> Attention:
    """Compute one head's attention over a short prompt by hand, and hold it against eager and sdpa.

    ``source`` is a safetensors folder; a text is read by its own tokenizer, ``tokens`` are ids instead. Needs
    the extra ``lab``; see :func:`ropewalk.lab.attention.attend`. Raises :class:`EngineMissingError` without
    it, :class:`CheckpointError`, and :class:`UsageError` for a layer or head that is not there, a layout that
    is not covered, and (``does_not_fit``) a prompt whose squares would not fit.
    """
    for name, value, kind in (
        ("prompt", prompt, str | None), ("tokens", tuple_of(tokens), tuple[int, ...]), ("layer", layer, int),
        ("head", head, int), ("logits", logits, bool), ("memory_bytes", memory_bytes, int | None),
    ):  # fmt: skip
        require_type(name, value, kind)
    _require_torch()
    if (prompt is None) == (not tokens):
        raise UsageError("a prompt or token ids are needed, and not both", where={"field": "prompt"})
    from ropewalk.lab.attention import attend as attend_

    return attend_(
        os.fspath(source_of(source)),
        prompt=prompt,
        tokens=tokens,
        layer=layer,
        head=head,
        logits=logits,
        memory_bytes=memory_bytes,
    )


def time_kernels(source: Source | Inspection, *, up_to: int, device: str | None = None) -> Kernels:
    """Time eager attention against sdpa over doubling lengths, with the heads of a checkpoint.

    No weight is read. Needs the extra ``lab``; see :func:`ropewalk.lab.timing.time_kernels`. Raises as
    :func:`attend` does.
    """
    _require_torch()
    from ropewalk.lab.timing import time_kernels as time_kernels_

    return time_kernels_(inspection_of(source), up_to=up_to, device=device)


def _require_torch() -> None:
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        raise EngineMissingError(
            'attention is computed with torch: pip install "ropewalk[lab]"',
            code="extra_missing",
            where={"module": "torch"},
        ) from error
