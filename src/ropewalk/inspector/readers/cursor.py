"""A position in the header of a GGUF file: numbers, strings and skips over a window of the file.

The window is refilled as the position moves on, so that a vocabulary of 152,064 strings costs a walk and no
memory. Every size is held against the bytes that remain before anything is read or allocated.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Self

from ropewalk.errors import CheckpointError
from ropewalk.limits import MAX_GGUF_STRING_BYTES

Fetch = Callable[[int, int], bytes]
"""``fetch(offset, size)``: bytes of the file from ``offset``, fewer only at its end."""

WINDOW_BYTES = 256 * 1024
_LENGTH_BYTES = 8


class Cursor:
    """Reads forward through a file of ``size`` bytes. Raises :class:`CheckpointError` at its end."""

    def __init__(
        self,
        fetch: Fetch,
        *,
        size: int,
        file: str,
        window_bytes: int = WINDOW_BYTES,
        close: Callable[[], None] | None = None,
    ) -> None:
        """``close`` is called at the end of a ``with`` block."""
        self.file = file
        self.size = size
        self._fetch = fetch
        self._window_bytes = window_bytes
        self._close = close
        self._window = b""
        self._start = 0  # of the window in the file
        self._at = 0  # of the position in the window; past its end after a skip
        self.use_byte_order("<")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._close is not None:
            self._close()

    def use_byte_order(self, order: str) -> None:
        """``"<"`` little-endian (as all files start), ``">"`` big-endian."""
        self.order = order
        self._u32 = Struct(order + "I")
        self._u64 = Struct(order + "Q")

    @property
    def position(self) -> int:
        """Offset from the beginning of the file, in bytes."""
        return self._start + self._at

    @property
    def remaining(self) -> int:
        """Bytes from here to the end of the file; negative after a skip past the end."""
        return self.size - self.position

    def u32(self) -> int:
        """An unsigned 32-bit integer."""
        value: int = self.unpack(self._u32)[0]
        return value

    def u64(self) -> int:
        """An unsigned 64-bit integer."""
        value: int = self.unpack(self._u64)[0]
        return value

    def unpack(self, layout: Struct) -> tuple[int, ...]:
        """The fields of one packed structure."""
        self._need(layout.size)
        values = layout.unpack_from(self._window, self._at)
        self._at += layout.size
        return values

    def take(self, count: int) -> bytes:
        """The next ``count`` bytes; raises where the file is shorter."""
        self._need(count)
        taken = self._window[self._at : self._at + count]
        self._at += count
        return taken

    def string(self, *, limit: int = MAX_GGUF_STRING_BYTES, too_long: str = "gguf_malformed") -> bytes:
        """A string: its length in 64 bits, then its bytes; ``too_long`` is the code beyond the limit."""
        length = self.u64()
        if length > limit:
            raise self.malformed(f"a string of {length:,} bytes; the limit is {limit:,}", code=too_long)
        return self.take(length)

    def text(self, what: str, *, limit: int, too_long: str = "gguf_malformed") -> str:
        """A name: a string that has to be UTF-8, since everything else refers to it."""
        raw = self.string(limit=limit, too_long=too_long)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.malformed(f"a {what} that is not UTF-8: {raw[:40]!r}") from error

    def peek(self, count: int) -> bytes:
        """Up to ``count`` of the next bytes, without moving on."""
        self._need(min(count, self.remaining))
        return self._window[self._at : self._at + count]

    def skip(self, count: int) -> None:
        """Move on without reading."""
        self.check(count)
        self._at += count

    def skip_strings(self, count: int) -> None:
        """Move past ``count`` strings; reads their lengths only."""
        unpack = self._u64.unpack_from
        while count:
            self._need(_LENGTH_BYTES)
            window, at = self._window, self._at
            last = len(window) - _LENGTH_BYTES
            while count and at <= last:
                at += _LENGTH_BYTES + unpack(window, at)[0]
                count -= 1
            self._at = at
        self.check(0)

    def check(self, count: int) -> None:
        """Raise where fewer than ``count`` bytes remain."""
        if count > self.remaining:
            raise CheckpointError(
                f"{self.file} ends inside its header: {count:,} bytes are needed at offset "
                f"{self.position:,} of {self.size:,}; the file is cut or corrupt",
                code="header_length_exceeds_file",
                where={
                    "file": self.file,
                    "offset": self.position,
                    "declared": count,
                    "available": self.remaining,
                },
            )

    def malformed(self, reason: str, *, code: str = "gguf_malformed") -> CheckpointError:
        """The error for a header that contradicts the format at this position."""
        return CheckpointError(
            f"{self.file}: {reason} (at offset {self.position:,})",
            code=code,
            where={"file": self.file, "offset": self.position, "reason": reason},
        )

    def _need(self, count: int) -> None:
        """Have ``count`` bytes in the window from the position on."""
        if self._at + count <= len(self._window):
            return
        self.check(count)
        self._start, self._at = self.position, 0
        self._window = self._fetch(self._start, max(count, min(self._window_bytes, self.size - self._start)))
        if len(self._window) < count:
            raise CheckpointError(
                f"{self.file} became shorter while it was read",
                code="header_length_exceeds_file",
                where={"file": self.file, "offset": self._start},
            )
