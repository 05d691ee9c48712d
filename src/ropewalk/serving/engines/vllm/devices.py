"""Whether this machine has the devices that a plan for vLLM counts on."""

from __future__ import annotations

from pathlib import Path

from ropewalk.inspector.records import Inspection
from ropewalk.planner.records import Launch, Plan
from ropewalk.serving.engines.adapter import Outcome
from ropewalk.serving.host.devices import find_devices
from ropewalk.serving.process.members import nodes_here
from ropewalk.serving.records import Topology


def check_devices(plan: Plan, launch: Launch, inspection: Inspection, spread: Topology) -> Outcome:
    """Whether the heads can be divided, and each rank has a GPU; on the processor a NUMA node."""
    request, nodes = plan.request, len(launch.nodes) or 1
    ranks = request.tensor_parallel * request.pipeline_parallel * request.data_parallel
    if ranks == 1:
        return True, "one device"
    heads = inspection.value("num_attention_heads")
    if isinstance(heads, int) and heads % request.tensor_parallel:
        return False, f"{heads} attention heads cannot be divided by {request.tensor_parallel}"
    if spread.executor == "ray":
        return None, f"{ranks} ranks, for which Ray finds the devices"
    per_node = ranks // nodes
    if request.device == "cpu" or launch.found_build.devices == ("cpu",):
        return _cores(launch, per_node)
    here = per_node * (len(nodes_here(launch, spread.launcher)) or 1)
    gpus = sum(device.kind == "gpu" for device in find_devices())
    return gpus >= here, f"{_counted(here, 'rank')}{'' if nodes == 1 else ' here'}, {_counted(gpus, 'GPU')}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _cores(launch: Launch, ranks: int) -> Outcome:
    """vLLM binds each rank of a node to a NUMA node's cores, unless it is told to bind none."""
    if launch.env.get("VLLM_CPU_OMP_THREADS_BIND") == "nobind":
        return True, f"{_counted(ranks, 'rank')}, not bound to cores"
    places = _numa_nodes()
    if places is None:
        return None, f"{_counted(ranks, 'rank')}; the system does not say how many NUMA nodes it has"
    unbound = "" if places >= ranks else "; --threads N binds none, and gives each N threads"
    return places >= ranks, f"{_counted(ranks, 'rank')}, {_counted(places, 'NUMA node')}{unbound}"


def _numa_nodes() -> int | None:
    nodes = list(Path("/sys/devices/system/node").glob("node[0-9]*"))
    return len(nodes) or None
