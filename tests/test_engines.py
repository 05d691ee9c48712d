"""The registry of engines: complete, the only list of them, and held by the types of their parts."""

from __future__ import annotations

from typing import get_args

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
