"""The page on the design says what is there: its tree is the folders, its walk is the calls."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import FrameType

import ropewalk
from ropewalk.cli.app import run
from ropewalk.serving.engines.vllm import launch

ROOT = Path(ropewalk.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "design.md").read_text(encoding="utf-8")
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "head_dim": 16,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
    "intermediate_size": 128, "max_position_embeddings": 4096, "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}  # fmt: skip
NOT_SHOWN = {"__init__.py", "__main__.py", "_version.py"}


def shown() -> set[str]:
    """The paths of the tree, by their indents of two."""
    block = PAGE.split("```text\nsrc/ropewalk/\n")[1].split("```")[0]
    paths, parents = set(), [""]
    for line in block.splitlines():
        depth, name = (len(line) - len(line.lstrip())) // 2, line.split()[0]
        parents = [*parents[:depth], f"{parents[depth - 1]}{name}"]
        paths.add(parents[depth])
    return paths


def test_the_tree_is_the_folders() -> None:
    folders = {f"{path.relative_to(ROOT)}/" for path in ROOT.rglob("*/") if any(path.glob("*.py"))}
    modules = {path.name for path in ROOT.glob("*.py")} - NOT_SHOWN
    assert shown() == folders | modules


def test_no_folder_is_deeper_than_three() -> None:
    assert max(len(path.relative_to(ROOT).parts) for path in ROOT.rglob("*.py")) <= 4


def test_a_length_passes_the_functions_of_the_page(tmp_path: Path) -> None:
    """Down to the engine's own flags; the wrapper that turns a caller's mistakes into our errors apart."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    walk: list[str] = []

    def look(frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or walk or frame.f_code is not launch.arguments.__code__:
            return
        caller: FrameType | None = frame
        while caller is not None:
            path = Path(caller.f_code.co_filename)
            if path.is_relative_to(ROOT):
                module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
                walk.insert(0, f"{module}.{caller.f_code.co_name}")
            caller = caller.f_back

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        run(["plan", str(tmp_path), "--context", "2k", "--engine", "vllm", "--json"])
    finally:
        sys.setprofile(before)
    table = PAGE.split("## A length's way to the command")[1].split("##")[0]
    named = re.findall(r"^\| `([\w.]+)` \|", table, flags=re.MULTILINE)
    assert [name for name in walk if name in named] == named
    assert len(named) <= 6
    beside = set(walk) - set(named)
    assert {
        name for name in beside if not name.startswith(("cli.command.", "cli.app.", "core.arguments.call"))
    } == set()
