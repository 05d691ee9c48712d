"""The comment at the top of a file: what it was made from, and what is worth knowing of it. No date."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ropewalk.emit.server import EmittedServer
from ropewalk.planner.records import DeviceShare, Plan, RopeDecision
from ropewalk.units import format_bytes, format_tokens


def header(server: EmittedServer, *notes: str) -> str:
    """Comment lines; ``notes`` say what is to be done with the file."""
    lines = [*_made_from(server), *notes]
    return "".join(f"# {printable(line)}".rstrip() + "\n" for line in lines)


def printable(text: str) -> str:
    """One line of text: a name out of a checkpoint must not end the comment that it stands in."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def holds(plan: Plan, node: int) -> str:
    """What lies on a machine: ``blocks 0 to 17, embedding``; empty where the plan does not say."""
    shares = [share for share in plan.memory.per_device if share.place and share.place.node == node]
    if not shares:
        return ""
    first, last = min(share.layers[0] for share in shares), max(share.layers[1] for share in shares)
    places = [share.place for share in shares if share.place]
    words = [f"blocks {first} to {last - 1}"] if last > first else []
    words += ["embedding"] if any(place.embedding for place in places) else []
    words += ["output head"] if any(place.head for place in places) else []
    words += [f"up to {format_bytes(max(map(_high, shares)))} on a device"]
    return ", ".join(words)


def _made_from(server: EmittedServer) -> Iterator[str]:
    plan = server.plan
    sequences = plan.request.num_sequences
    yield f"{plan.checkpoint}: {format_tokens(plan.context_len)} tokens x {sequences}, planned by ropewalk"
    yield f"for     {server.engine} {server.version or '(any version)'}, {_machines(server)}"
    yield f"rope    {_rope(plan.rope)}"
    yield f"memory  {_memory(plan.memory.per_device)}"
    for finding in plan.findings:
        if finding.severity == "warning":
            yield f"! {finding.code}: {finding.message}"
    yield ""


def _machines(server: EmittedServer) -> str:
    count = server.num_nodes
    each = f"{server.gpus} GPU{'s' if server.gpus != 1 else ''}" if server.gpus else "processor"
    return f"{count} machine{'s' if count != 1 else ''}, {each}{' each' if count > 1 else ''}"


def _rope(rope: RopeDecision) -> str:
    if rope.decision != "scale":
        return f"left as shipped: {rope.reason}"
    return f"{rope.type or 'scaled'}, factor {rope.factor!r}: {rope.reason}"


def _memory(shares: Sequence[DeviceShare]) -> str:
    fullest = max(shares, key=_high)
    planned = f"{format_bytes(fullest.total_bytes)} planned, up to {format_bytes(_high(fullest))}"
    return planned if len(shares) == 1 else f"{planned}, on the fullest of {len(shares)} devices"


def _high(share: DeviceShare) -> int:
    return share.total_bytes if share.high_bytes is None else share.high_bytes
