"""vLLM's container images."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ropewalk.checking.image import Image

_NAME = re.compile(r"(?:.*/)?vllm-openai(?P<kind>-\w+)?(?::(?P<tag>[^@]*))?(?:@.*)?")
_RELEASE = re.compile(r"v?(\d+\.\d+(?:\.\d+)*)(?:[-_+].*)?")  # v0.9.1-cu126, v0.31.0-ubuntu2404


def read_image(image: str, after: Sequence[str]) -> Image | None:
    """What the image says of vLLM; None for one of something else."""
    found = _NAME.fullmatch(image)
    if found is None:
        return None
    version = _RELEASE.fullmatch(found["tag"] or "")
    # The words are there with --entrypoint, or for an image that has none.
    skipped = 2 if list(after[:2]) == ["vllm", "serve"] else 0
    return Image(skipped, version[1] if version else None, on_cpu="cpu" in (found["kind"] or ""))
