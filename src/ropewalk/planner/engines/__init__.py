"""One module per engine: the only places that know how an engine rounds, pads and reserves."""

from __future__ import annotations

from ropewalk.planner.engines import llama_cpp_python, llama_server, transformers, vllm
from ropewalk.planner.engines.rules import EngineRules
from ropewalk.planner.records import Engine

ENGINES: dict[Engine, EngineRules] = {
    "vllm": vllm,
    "llama-server": llama_server,
    "llama-cpp-python": llama_cpp_python,
    "transformers": transformers,
}
