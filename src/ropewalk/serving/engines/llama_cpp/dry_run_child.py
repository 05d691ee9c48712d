"""The embedded engine up to the point where a server would begin to serve, with nothing allocated.

Run as ``python -P -m ropewalk.serving.engines.llama_cpp.dry_run_child ARGUMENT...`` with the arguments of
``llama-server``. The engine reads the header, makes the context, prints every size, and would then try a
token, which cannot work on buffers that are not there. It is given a projector that does not exist: that is
looked for in between (tools/server/server-context.cpp, load_model), and ends it in order.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ropewalk.serving.engines.llama_cpp.dry_run import NO_PROJECTOR
from ropewalk.serving.engines.llama_cpp.embedded import parameters_of, start
from ropewalk.serving.engines.llama_cpp.embedded_flags import FlagError, parse

_ANY_PORT = 0  # the planned one may be taken, by the very server that is asked about
_NO_READING = 0  # llama_load_mode none: nothing is mapped, so nothing is checked against the file's length


def main(arguments: Sequence[str]) -> int:
    """Have the sizes printed. Returns 1, since no server comes of it."""
    try:
        parameters = parameters_of(parse(arguments))
    except FlagError as error:
        print(error, file=sys.stderr)  # noqa: T201 - what llama-server itself would print
        return 1
    parameters.port = _ANY_PORT
    parameters.no_alloc = True
    parameters.warmup = False
    parameters.load_mode = _NO_READING
    parameters.mmproj.path = NO_PROJECTOR
    start(parameters)  # fails, as meant or for a reason before
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
