from __future__ import annotations

from pathlib import Path

from ropewalk.inspector.records import CheckpointFile
from ropewalk.measuring.fingerprint import fingerprint
from ropewalk.units import MIB


def test_first_and_last_mib_name_and_size_tell_weights_apart(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    files = (CheckpointFile("model.gguf", 3 * MIB),)
    path.write_bytes(bytes(3 * MIB))
    plain = fingerprint(str(path), files)
    assert plain == fingerprint(str(tmp_path), files)  # by file or by folder
    assert plain.startswith("sha256:")
    seen = {plain}
    for place in (0, 3 * MIB - 1):
        changed = bytearray(3 * MIB)
        changed[place] = 1
        path.write_bytes(changed)
        seen.add(fingerprint(str(path), files))
    seen.add(fingerprint(str(path), (CheckpointFile("model.gguf", 5),)))
    assert len(seen) == 4


def test_a_model_of_the_hub_is_known_by_names_and_sizes() -> None:
    one, other = (fingerprint("org/name", (CheckpointFile("model.safetensors", size),)) for size in (5, 6))
    assert one != other
