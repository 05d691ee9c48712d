"""Every attack file is refused or told, by name, in words that can be printed."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from safetensors import SafetensorError, deserialize
from tests.inspector.readers.attacks import ATTACKS, SAFETENSORS, Attack

from ropewalk.errors import CheckpointError
from ropewalk.inspector.checkpoint import open_checkpoint


def lay(attack: Attack, folder: Path) -> Path:
    for name, raw in attack.files.items():
        (folder / name).write_bytes(raw)
    return folder / next(iter(attack.files))


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_attacks(attack: Attack, tmp_path: Path) -> None:
    path = lay(attack, tmp_path)
    tracemalloc.start()
    try:
        checkpoint = open_checkpoint(path)
        told = [(finding.code, finding.message, finding.where) for finding in checkpoint.findings]
        assert all(finding.severity == "error" for finding in checkpoint.findings)
    except CheckpointError as error:
        told = [(error.code, error.message, error.where)]
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert attack.code in [code for code, _, _ in told], attack.reason
    for _, message, where in told:
        assert len(f"{message}{json.dumps(where, ensure_ascii=False)}".encode()) < 20_000
    assert peak < 5_000_000 + 10 * path.stat().st_size


# What safetensors 0.8.0 takes all the same.
TAKEN = {"two_meanings", "escaped_twin"}


@pytest.mark.parametrize("attack", SAFETENSORS, ids=lambda attack: attack.name)
def test_the_reference_refuses_them_too(attack: Attack) -> None:
    (raw,) = attack.files.values()
    if attack.name in TAKEN:
        deserialize(raw)  # type: ignore[no-untyped-call]
    else:
        with pytest.raises(SafetensorError):
            deserialize(raw)  # type: ignore[no-untyped-call]


def test_names_are_unique() -> None:
    names = [(attack.name, attack.files.keys() & {"model.gguf"} != set()) for attack in ATTACKS]
    assert len(set(names)) == len(names)
