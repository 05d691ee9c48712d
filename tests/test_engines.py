"""The registry of engines: complete, the only list of them, and held by the types of their parts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import get_args

import ropewalk
from ropewalk import engines
from ropewalk.engines import REGISTRY, EngineName, engine_for
from ropewalk.planner.engines import EngineRules, llama_cpp_python, llama_server, rules_of, transformers, vllm
from ropewalk.serving.dry_run.confirm import DryRun, dry_run_of
from ropewalk.serving.engines import Adapter, adapter_of
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

# Checked by the type checker: a module is found by its name, so that no import holds it to its protocol.
RULES: dict[EngineName, EngineRules] = {
    "vllm": vllm,
    "llama-server": llama_server,
    "llama-cpp-python": llama_cpp_python,
    "transformers": transformers,
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
TABLES = {"planner/rope/versions.py", "checking/argv.py", "checking/check.py", "checking/containers.py"}


def named_engines(path: Path) -> Iterator[str]:
    """Every place of a module that depends on which engine it is."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and node.value in REGISTRY:
            yield f"{node.lineno}: {node.value!r}"
        if isinstance(node, ast.Attribute) and node.attr in ("reads_gguf", *RECORDS):
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
