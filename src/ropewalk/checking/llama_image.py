"""llama.cpp's container images."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ropewalk.checking.image import Image, refused

_NAME = re.compile(r"(?:.*/)?llama\.cpp:(?P<tag>(?P<kind>server|full)[^@]*)(?:@.*)?")


def read_image(image: str, after: Sequence[str]) -> Image | None:
    """What the image says of llama-server; None for one of something else. Raises :class:`UsageError` where
    the image would start another program."""
    found = _NAME.fullmatch(image)
    if found is None:
        return None
    version = re.search(r"b\d{4,}", found["tag"])
    full = found["kind"] == "full"
    if full and list(after[:1]) not in (["--server"], ["-s"]):
        raise refused(image, "the image 'full' runs a server only with --server first")
    on_cpu = found["tag"].count("-") == bool(version)
    return Image(int(full), version[0] if version else None, on_cpu=on_cpu)
