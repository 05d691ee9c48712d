"""What the log of somebody else's llama-server tells.

Lines as printed by llama.cpp b11434 (``src/llama-context.cpp``, at ``-lv 4``).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ropewalk.checking.foreign_log import ForeignLog, last_match, typed_command
from ropewalk.serving.engines.llama_cpp import log as llama_log

MARKS = re.compile(r"\b(?:llama_context|llama_model_loader|load_tensors|llama_kv_cache|llama_server): ")
COMMAND = "llama-server"
_BUILD = re.compile(r"\bbuild_info: (b[1-9]\d*)|\bbuild: ([1-9]\d*) \(")
_NUMBER = r"llama_context: {}\s+= (\d+)"


def read(lines: Sequence[str]) -> ForeignLog:
    """The log of a server that printed one of :data:`MARKS`."""
    printed = llama_log.parse(lines)
    build = last_match(_BUILD, lines)
    return ForeignLog(
        engine="llama-server",
        version=None if build is None else f"b{build.removeprefix('b')}",
        command=typed_command(lines, COMMAND),
        context_len=_number("n_ctx_seq", lines),
        num_sequences=_number("n_seq_max", lines),
        cells=_number("n_ctx", lines),
        buffers=printed.buffers,
        error=llama_log.root_error(lines) if not printed.buffers else None,
    )


def _number(name: str, lines: Sequence[str]) -> int | None:
    found = last_match(re.compile(_NUMBER.format(name)), lines)
    return None if found is None else int(found)
