"""A SkyPilot task: machines with the planned devices, the engine installed, the server started."""

from __future__ import annotations

from typing import Any

from ropewalk.emit.header import header
from ropewalk.emit.server import EmittedServer, require_no_rpc, require_published
from ropewalk.emit.shell import command, function, of_head_or_other
from ropewalk.emit.yamltext import yaml_text
from ropewalk.errors import UsageError
from ropewalk.units import GIB

_MODELS = "/models"
_SETUP = """\
set -eu
python3 -m venv "$HOME/engine"
"$HOME/engine/bin/pip" install {package}=={version}
"""
_ENTER = '. "$HOME/engine/bin/activate"\n'
_WHO = """\
HEAD=$(echo "$SKYPILOT_NODE_IPS" | head -n 1)
VLLM_HOST_IP=$(echo "$SKYPILOT_NODE_IPS" | sed -n "$((SKYPILOT_NODE_RANK + 1))p")
export VLLM_HOST_IP
"""


def task(server: EmittedServer, *, accelerator: str | None) -> str:
    """YAML for ``sky launch``, and for ``sky serve up`` where one machine is enough.

    Raises :class:`UsageError` without a released version, for RPC servers, and where nothing says which GPUs.
    """
    require_no_rpc(server, "a SkyPilot task")
    version = require_published(server)
    server = server.reachable().moved(_MODELS)
    key = server.published.key
    notes = (
        f"sky launch --secret {key} THIS_FILE; the port is open to the internet, callers need the key.",
        *(["For a gated model --secret HF_TOKEN as well."] if server.hub else []),
        *([f"As a service: sky serve up --secret {key} THIS_FILE"] if server.num_nodes == 1 else []),
    )
    return header(server, *notes) + yaml_text(_task(server, version, accelerator))


def _task(server: EmittedServer, version: str, accelerator: str | None) -> dict[str, Any]:
    package = server.published.package if server.gpus else None
    data: dict[str, Any] = {"name": server.name, "num_nodes": server.num_nodes}
    data["resources"] = {
        **_devices(server, accelerator),
        **({} if package else {"image_id": f"docker:{server.published.image(version, gpu=server.gpus > 0)}"}),
        "ports": server.port,
    }
    data["secrets"] = {server.published.key: None}
    if server.hub is None:
        source, target = server.files(_MODELS)
        data["file_mounts"] = {target: source}
    if package:
        data["setup"] = _SETUP.format(package=package, version=version)
    data["run"] = _run(server, installed=package is not None)
    if server.num_nodes == 1:
        probe = {"path": "/health", "initial_delay_seconds": server.ready_seconds}
        data["service"] = {"readiness_probe": probe, "replicas": 1}
    return data


def _devices(server: EmittedServer, accelerator: str | None) -> dict[str, str]:
    """GPUs by name, or by the planned memory of one; a processor by the memory beside it."""
    if not server.gpus:
        return {"memory": f"{-(-server.host_bytes // GIB)}+"}
    budget = server.plan.request.memory_bytes
    if accelerator is None and budget is None:
        raise UsageError(
            "which GPUs is not known: --accelerator H100, or plan for the memory of one, --memory 80GiB",
            where={"flag": "--accelerator", "gpus": server.gpus},
        )
    kind = accelerator or f"{-(-(budget or 0) // GIB)}GB+"
    return {"accelerators": f"{kind}:{server.gpus}"}


def _run(server: EmittedServer, *, installed: bool) -> str:
    begin = "set -eu\n" + (_ENTER if installed else "")
    if server.num_nodes == 1:
        return begin + command(server, "exec", program=None if installed else server.published.program)
    calls = of_head_or_other(server, node="SKYPILOT_NODE_RANK", head="HEAD")
    return begin + _WHO + function(server) + calls
