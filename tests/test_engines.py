"""The registry of engines: complete, the only list of them, and held by the types of their parts."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import cast, get_args

import pytest
from tests import planned_only
from tests.inspector.made import QWEN3_8B

import ropewalk
from ropewalk import core, engines
from ropewalk.engines import REGISTRY, Engine, EngineName, engine_for
from ropewalk.errors import EngineMissingError
from ropewalk.planner.engines import (
    EngineRules,
    llama_cpp_python,
    llama_server,
    ollama,
    rules_of,
    transformers,
    vllm,
)
from ropewalk.serving.dry_run import DryRun, dry_run_of
from ropewalk.serving.engines import Adapter, adapter_of, pick_engine
from ropewalk.serving.engines.find import Finder, finder_of
from ropewalk.serving.engines.llama_cpp import dry_run as llama_dry_run
from ropewalk.serving.engines.llama_cpp import find as llama_find
from ropewalk.serving.engines.llama_cpp import install as llama_install
from ropewalk.serving.engines.llama_cpp import launch as llama_launch
from ropewalk.serving.engines.llama_cpp_python import find as library_find
from ropewalk.serving.engines.llama_cpp_python import install as library_install
from ropewalk.serving.engines.llama_cpp_python import launch as library_launch
from ropewalk.serving.engines.vllm import dry_run as vllm_dry_run
from ropewalk.serving.engines.vllm import find as vllm_find
from ropewalk.serving.engines.vllm import install as vllm_install
from ropewalk.serving.engines.vllm import launch as vllm_launch
from ropewalk.serving.install import Installer, installer_of
from ropewalk.units import GIB

# Checked by the type checker: a module is found by its name, so that no import holds it to its protocol.
RULES: dict[EngineName, EngineRules] = {
    "vllm": vllm,
    "llama-server": llama_server,
    "llama-cpp-python": llama_cpp_python,
    "transformers": transformers,
    "ollama": ollama,
}
ADAPTERS: dict[EngineName, Adapter] = {
    "vllm": vllm_launch,
    "llama-server": llama_launch,
    "llama-cpp-python": library_launch,
}
FINDERS: dict[EngineName, Finder] = {
    "vllm": vllm_find,
    "llama-server": llama_find,
    "llama-cpp-python": library_find,
}
INSTALLERS: dict[EngineName, Installer] = {
    "vllm": vllm_install,
    "llama-server": llama_install,
    "llama-cpp-python": library_install,
}
DRY_RUNS: dict[EngineName, DryRun] = {"vllm": vllm_dry_run, "llama-server": llama_dry_run}


def test_every_name_has_a_record() -> None:
    assert set(get_args(EngineName)) == set(REGISTRY)
    assert all(name == engine.name for name, engine in REGISTRY.items())


def test_every_part_is_found_and_held_to_its_protocol() -> None:
    served = {name for name, engine in REGISTRY.items() if engine.is_served}
    asked = {name for name, engine in REGISTRY.items() if engine.answers_dry_run}
    assert {name: rules_of(name) for name in REGISTRY} == RULES
    assert {name: adapter_of(name) for name in served} == ADAPTERS
    assert {name: finder_of(name) for name in served} == FINDERS
    assert {name: installer_of(name) for name in served} == INSTALLERS
    assert {name: dry_run_of(name) for name in asked} == DRY_RUNS


def test_a_checkpoint_gets_the_first_engine_that_serves_its_format() -> None:
    assert [engine_for(kind) for kind in ("gguf", "safetensors", "config")] == [
        "llama-server",
        "vllm",
        "vllm",
    ]


# --- no list beside the registry ------------------------------------------------------------------------

ROOT = Path(ropewalk.__file__).parent
ROOMS = (
    "engines.py",
    "planner/engines/*",
    "serving/engines/vllm/*",
    "serving/engines/llama_cpp/*",
    "serving/engines/llama_cpp_python/*",
    "checking/vllm_*",
    "checking/llama_*",
)
RECORDS = {name for name in vars(engines) if isinstance(vars(engines)[name], engines.Engine)}
# Changes of behaviour belong to versions of one engine each; the checker of wrappers knows their images.
TABLES = {"planner/rope/versions.py"}


def asks_for_a_format(node: ast.expr) -> bool:
    """A format by its name, put to an engine: which one it is in other words."""
    if isinstance(node, ast.Compare):
        return any(isinstance(one, ast.Attribute) and one.attr == "formats" for one in ast.walk(node))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    return node.func.attr == "reads" and any(isinstance(one, ast.Constant) for one in node.args)


@pytest.mark.parametrize(
    "text",
    ["'gguf' in it.formats", "it.formats[0] == 'gguf'", "it.reads('safetensors')", "kind == 'vllm'"],
)
def test_the_count_sees_each_way_to_ask_which_engine_it_is(text: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(f"found = {text}")
    assert len(list(named_engines(module))) == 1


def named_engines(path: Path) -> Iterator[str]:
    """Every place of a module that depends on which engine it is."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and node.value in REGISTRY:
            yield f"{node.lineno}: {node.value!r}"
        if isinstance(node, ast.Attribute) and node.attr in ("reads_gguf", *RECORDS):
            yield f"{node.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.expr) and asks_for_a_format(node):
            yield f"{node.lineno}: {ast.unparse(node)}"
        if isinstance(node, ast.ImportFrom) and node.module == engines.__name__:
            yield from (f"{node.lineno}: {one.name}" for one in node.names if one.name in RECORDS)


def test_no_engine_is_named_outside_its_rooms() -> None:
    found = {
        name: places
        for path in sorted(ROOT.rglob("*.py"))
        if (name := str(path.relative_to(ROOT))) not in TABLES
        and not any(fnmatch(name, room) for room in ROOMS)
        and (places := list(named_engines(path)))
    }
    assert found == {}


# --- a planned-only engine is one module and one row -------------------------------------------------------

PLANNED_ONLY = Engine(
    name=cast("EngineName", "planned-only"),
    title="Planned Only",
    formats=("safetensors",),
    rules="tests.planned_only",
    how_to_get="it does not exist",
)
HELD: EngineRules = planned_only


def test_a_planned_only_engine_is_planned_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(REGISTRY, PLANNED_ONLY.name, PLANNED_ONLY)
    config = tmp_path / "config.json"
    config.write_text(json.dumps(QWEN3_8B))
    plan = core.plan(config, context_len=32768, engine=PLANNED_ONLY.name, memory_bytes=48 * GIB)
    assert (plan.fit.fits, plan.rope.decision, plan.launch) == (True, "none", None)
    assert plan.memory.term("kv_cache").bytes == 32768 * 36 * 2 * 8 * 128 * 2  # type: ignore[union-attr]
    assert plan.fit.max_sequences == 4
    scaled = core.plan(config, context_len=131072, engine=PLANNED_ONLY.name).rope
    assert (scaled.decision, scaled.factor) == ("scale", 4.0)
    with pytest.raises(EngineMissingError, match="it does not exist"):
        pick_engine(PLANNED_ONLY.name)
    assert core.doctor().missing.keys().isdisjoint({PLANNED_ONLY.name})


def test_the_command_line_takes_it(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(QWEN3_8B))
    child = (
        "import sys\n"
        "from tests.test_engines import PLANNED_ONLY, REGISTRY\n"
        "REGISTRY[PLANNED_ONLY.name] = PLANNED_ONLY\n"
        "from ropewalk.cli.app import run\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", child, "plan", str(config), *("--context", "32k", "--json"),
         *("--engine", "planned-only", "--memory", "48GiB")],
        capture_output=True, text=True, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["request"]["engine"] == "planned-only"
    assert [finding["code"] for finding in answer["findings"]] == ["planned_only"]
