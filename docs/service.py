"""``http.md``: the routes of the HTTP service, from the service itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docs.markdown import table
from ropewalk.api.app import make_app
from ropewalk.api.gate import needs_token
from ropewalk.api.openapi import document
from ropewalk.api.settings import ApiSettings


def http_page() -> str:
    """The whole page."""
    made = document(make_app(ApiSettings(token="documentation" * 2, store=Path("runs"))), private=True)
    return "\n".join([_INTRODUCTION, table("request", "token", "what it does", rows=_routes(made)), _REST])


def _routes(made: dict[str, Any]) -> Iterator[list[str]]:
    for path, operations in made["paths"].items():
        for method, operation in operations.items():
            needed = "yes" if needs_token(method.upper(), path, private=True) else ""
            first = " ".join(operation["description"].split("\n\n")[0].split())
            yield [f"`{method.upper()} {path}`", needed, first]


_INTRODUCTION = """# HTTP service

```sh
pip install "ropewalk[api]"
ropewalk api --models-dir ~/models
```

It listens on `http://127.0.0.1:7673`. The answers are the records of the command line's `--json`; the page at
`/docs` and the document at `/openapi.json` describe every field. `checkpoint` is a path inside the folders
given by `--models-dir`, or a Hub id with `--hub`."""

_REST = """
Starting, stopping and deleting need the token: `Authorization: Bearer TOKEN`. It is taken from
`ROPEWALK_TOKEN`, or made up and shown at the start. On an address other than a loopback one, or with
`--allow-host`, reading needs it too. Nothing is encrypted: put a proxy with TLS in front.

A measurement goes on when its client leaves. What was under way when the service ended goes on when it is
started again with the same store; with `--no-resume` it stays `interrupted` until it is asked for. A run in
whose middle the service has ended three times is begun no more. A server that was started outlives the
service.

That a plan does not fit is an answer like any other. What is wrong with a request is a problem (RFC 9457,
`application/problem+json`) with the `code` and `where` of the [findings](findings.md).

```sh
curl -s 'http://127.0.0.1:7673/v1/inspect?checkpoint=Qwen3-8B' | jq .facts.num_key_value_heads
curl -s http://127.0.0.1:7673/v1/plan -H 'content-type: application/json' \\
  -d '{"checkpoint": "Qwen3-8B", "request": {"context_len": 131072, "engine": "vllm"}}' \\
  | jq -r .launch.command
```
"""
