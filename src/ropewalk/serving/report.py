"""What a running server says about itself: over HTTP, and in the lines that it prints."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PrintedBuffer:
    """One buffer as the engine printed it.

    ``name`` is a memory term of the plan (``weights``, ``kv_cache``, ``state``, ``output_buffer``,
    ``compute_buffer``), ``device`` the engine's own word for where it lies. The true size is within
    ``rounding_bytes`` of ``bytes``: the engine prints two decimals of a MiB or GiB.
    """

    name: str
    device: str
    bytes: int
    rounding_bytes: int


@dataclass(frozen=True, slots=True)
class PrintedTerm:
    """All buffers of one memory term together."""

    name: str
    bytes: int
    rounding_bytes: int


@dataclass(frozen=True, slots=True)
class ServerReport:
    """What a ready server reports. ``context_len`` is tokens per sequence, prompt and answer together.

    ``num_sequences`` is None where the engine does not say. ``cells`` counts the tokens that the KV cache
    holds (llama-server: of its largest cache; vLLM: blocks x block size).
    """

    model_name: str
    context_len: int
    num_sequences: int | None
    cells: int | None = None
    buffers: tuple[PrintedBuffer, ...] = ()

    def printed(self, name: str) -> PrintedTerm | None:
        """The printed size of a memory term over all devices, or None where it was not printed."""
        found = [buffer for buffer in self.buffers if buffer.name == name]
        if not found:
            return None
        return PrintedTerm(
            name=name,
            bytes=sum(buffer.bytes for buffer in found),
            rounding_bytes=sum(buffer.rounding_bytes for buffer in found),
        )
