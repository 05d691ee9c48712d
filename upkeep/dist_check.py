"""Build the wheel and the sdist, see what is in them, install each in an environment of its own and use it.

    python upkeep/dist_check.py [FOLDER]

FOLDER (default ``dist``) is where the two end up. Ends with 1 and a line for each fault.
"""

from __future__ import annotations

import email
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parents[1]
PACKAGE = "src/ropewalk/"
SHARED = {"docs/schemas/": "share/ropewalk/schemas/", "docs/man/": "share/man/man1/"}  # as in pyproject.toml
LEFT_OUT = ".ci/"  # of a source distribution
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "head_dim": 16,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
    "intermediate_size": 128, "max_position_embeddings": 4096, "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}  # fmt: skip


def main(folder: str = "dist") -> int:
    """The exit status."""
    dist = Path(folder).resolve()
    shutil.rmtree(dist, ignore_errors=True)
    run([sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT)], cwd=ROOT)
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    tracked = set(run(["git", "ls-files"], cwd=ROOT).splitlines())
    faults = [*wheel_faults(wheel, tracked), *source_faults(source, tracked)]
    for made in (wheel, source):
        faults += [f"{made.name}: {fault}" for fault in installed_faults(made, version_of(wheel))]
        print(f"{made.name}: {made.stat().st_size:,} bytes", flush=True)
    print(*faults, sep="\n", end="\n" if faults else "", file=sys.stderr)
    return int(bool(faults))


def wheel_faults(wheel: Path, tracked: set[str]) -> Iterator[str]:
    """Every file of the package is in it, schemas, man page and licence too, and nothing else."""
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    expected = {f"ropewalk/{path.removeprefix(PACKAGE)}" for path in tracked if path.startswith(PACKAGE)}
    stem = "-".join(wheel.name.split("-")[:2])
    for ours, theirs in SHARED.items():
        placed = {path.removeprefix(ours) for path in tracked if path.startswith(ours)}
        expected |= {f"{stem}.data/data/{theirs}{name}" for name in placed}
    about = f"{stem}.dist-info/"
    expected.add(f"{about}licenses/LICENSE")
    named = {f"{about}{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt")}
    yield from (f"{wheel.name} lacks {name}" for name in sorted((expected | named) - names))
    yield from (f"{wheel.name} has {name}" for name in sorted(names - expected - named))


def source_faults(source: Path, tracked: set[str]) -> Iterator[str]:
    """What git tracks, and nothing else."""
    with tarfile.open(source) as archive:
        names = {str(PurePosixPath(*PurePosixPath(one.name).parts[1:])) for one in archive if one.isfile()}
    expected = {path for path in tracked if not path.startswith(LEFT_OUT)}
    yield from (f"{source.name} lacks {name}" for name in sorted(expected - names))
    yield from (f"{source.name} has {name}" for name in sorted(names - tracked - {"PKG-INFO"}))


def version_of(wheel: Path) -> str:
    """The version that its metadata states."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return str(email.message_from_bytes(archive.read(name))["Version"])


def installed_faults(made: Path, version: str) -> Iterator[str]:
    """Installed in a fresh environment, the commands and the import answer, and every file is found."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        run([sys.executable, "-m", "venv", str(home / "env")])
        bin_dir = home / "env" / ("Scripts" if os.name == "nt" else "bin")
        python, command = str(bin_dir / "python"), str(bin_dir / "ropewalk")
        run([python, "-m", "pip", "install", "--quiet", str(made)])
        (home / "config.json").write_text(json.dumps(CONFIG))

        def said(*words: str) -> str:
            return run(words, cwd=home).strip()

        if (stated := said(command, "--version")) != f"ropewalk {version}":
            yield f"--version says {stated!r}, the metadata {version!r}"
        if (imported := said(python, "-c", "import ropewalk; print(ropewalk.__version__)")) != version:
            yield f"import says {imported!r}, the metadata {version!r}"
        inspection = json.loads(said(command, "inspect", "config.json", "--json"))
        if inspection["facts"]["num_hidden_layers"]["value"] != 2:
            yield "inspect does not read the config"
        if "FITS" not in said(command, "plan", "config.json", "--context", "2k", "--memory", "8GiB"):
            yield "plan does not fit 2,048 tokens of a tiny model in 8 GiB"
        served = ("vllm", "serve", ".", "--max-model-len", "2048")
        if "OK" not in said(command, "check", "--memory", "8GiB", "--", *served):
            yield "check does not know the flags of vllm"
        said(python, "-m", "pip", "check")


def run(words: Sequence[str], *, cwd: Path | None = None) -> str:
    """What a program prints; ends this one with its last words where it fails."""
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(
            f"{' '.join(words)} ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
