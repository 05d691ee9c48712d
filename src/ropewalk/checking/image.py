"""What a container image tells of the engine in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Protocol, cast

from ropewalk.engines import REGISTRY, EngineName
from ropewalk.errors import UsageError


@dataclass(frozen=True, slots=True)
class Image:
    """``skipped`` words stand between the image and the engine's arguments; ``version`` is the tag's, None
    where it names none; ``on_cpu`` whether the image is the one for the processor."""

    skipped: int
    version: str | None
    on_cpu: bool


class ImageReader(Protocol):
    """The function of the module that knows an engine's images."""

    def read_image(self, image: str, after: Sequence[str]) -> Image | None:
        """What the image says, given the words after it; None for one of something else."""
        ...


def read_image(image: str, after: Sequence[str]) -> tuple[EngineName, Image]:
    """The engine in an image. Raises :class:`UsageError` for an image of none."""
    for engine in REGISTRY.values():
        if engine.image_reader is None:
            continue
        found = cast("ImageReader", import_module(engine.image_reader)).read_image(image, after)
        if found is not None:
            return engine.name, found
    raise refused(image, "it is neither a vllm-openai nor a llama.cpp server image")


def refused(word: str, why: str) -> UsageError:
    """The error for a container command that cannot be taken apart."""
    return UsageError(
        f"{word!r} in a container command is not understood: {why}; give the command that runs inside",
        where={"word": word},
    )
