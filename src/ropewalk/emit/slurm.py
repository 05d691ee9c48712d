"""An sbatch script: one server on one machine of the cluster or over several."""

from __future__ import annotations

from textwrap import indent

from ropewalk.emit.header import header
from ropewalk.emit.server import EmittedServer, require_no_rpc
from ropewalk.emit.shell import command, function, of_head_or_other

# The first task that ends, with whatever status, ends the step half a minute later.
_GROUP = """\
HEAD=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
export HEAD

{function}
node() {{
{node}}}

export -f serve node
srun --kill-on-bad-exit=1 --wait=30 bash -c node
"""


def script(server: EmittedServer) -> str:
    """A bash script for ``sbatch``. Raises :class:`UsageError` for RPC servers."""
    require_no_rpc(server, "a Slurm job")
    server = server.reachable()
    notes = (
        "sbatch --partition=... --time=... THIS_FILE; whole machines: Slurm gives a task one core unasked.",
        f"It answers on port {server.port} of the first machine; set {server.published.key} against others.",
    )
    if server.num_nodes == 1:
        body = command(server, "exec")
    else:
        calls = of_head_or_other(server, node="SLURM_NODEID", head="HEAD")
        body = _GROUP.format(function=function(server), node=indent(calls, "  "))
    return f"#!/bin/bash\n{header(server, *notes)}{_directives(server)}\nset -eu\n\n{body}"


def _directives(server: EmittedServer) -> str:
    options = [
        f"--job-name={server.name}",
        f"--nodes={server.num_nodes}",
        "--ntasks-per-node=1",
        *([f"--gpus-per-node={server.gpus}"] if server.gpus else []),
        "--exclusive",
        "--mem=0",
    ]
    return "".join(f"#SBATCH {option}\n" for option in options)
