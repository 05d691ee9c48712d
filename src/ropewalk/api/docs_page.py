"""The OpenAPI document as a page of its own: no script, nothing from anywhere else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ropewalk.report.markup import Markup, element, join

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: 0.9em; }
pre { overflow-x: auto; padding: 0.75rem; border: 1px solid; border-radius: 4px; }
h3 { margin: 2rem 0 0; } p { margin: 0.25rem 0; white-space: pre-line; }
table { border-collapse: collapse; } td { padding: 0.1rem 1rem 0.1rem 0; vertical-align: top; }
.soft { opacity: 0.7; }
:root { color-scheme: light dark; }
"""
_EXAMPLE = """curl http://{host}/v1/plan -H 'Content-Type: application/json' -d '{{
  "checkpoint": "Qwen3-8B",
  "request": {{"context_len": 131072, "engine": "vllm", "memory_bytes": 51539607552}}}}'"""


def docs_page(document: Mapping[str, Any], *, host: str) -> str:
    """The page for an OpenAPI document; ``host`` is where it was asked."""
    head = [
        Markup('<meta charset="utf-8">'),
        element("title", "ropewalk: the HTTP service"),
        element("style", Markup(_STYLE)),
    ]
    body = element("body", join(list(_body(document, host))))
    return f"<!DOCTYPE html>\n{element('html', element('head', join(head)), body, lang='en')}\n"


def _body(document: Mapping[str, Any], host: str) -> Iterator[Markup]:
    info = document["info"]
    yield element("h1", f"{info['title']} {info['version']}")
    yield element("p", info["description"])
    yield element("p", "For programs: ", element("a", "openapi.json", href="openapi.json"))
    yield element("pre", _EXAMPLE.format(host=host))
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    for tag in dict.fromkeys(operation["tags"][0] for _, _, operation in operations):
        yield element("h2", tag)
        for path, method, operation in operations:
            if operation["tags"][0] == tag:
                yield from _operation(path, method, operation)
    yield element("h2", "Records")
    for name, schema in sorted(document["components"]["schemas"].items()):
        yield from _schema(name, schema)


def _operation(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[Markup]:
    yield element("h3", element("code", f"{method.upper()} {path}"))
    yield element("p", operation.get("description", ""))
    if "security" in operation:
        yield element("p", "Needs the token.", class_="soft")
    rows = [
        (item["name"], _type(item["schema"]), "required" if item["required"] else "")
        for item in operation.get("parameters", [])
    ]
    if "requestBody" in operation:
        schema = operation["requestBody"]["content"]["application/json"]["schema"]
        rows.append(("body", _type(schema), "required"))
    for status, response in operation["responses"].items():
        for media_type, content in response.get("content", {}).items():
            rows.append((status, _type(content.get("schema", {})), media_type))
    yield _table(rows)


def _schema(name: str, schema: Mapping[str, Any]) -> Iterator[Markup]:
    yield element("h3", element("code", name), id=name)
    yield element("p", schema.get("description", ""))
    required = schema.get("required", [])
    yield _table([
        (field, _type(item), "required" if field in required else "")
        for field, item in schema.get("properties", {}).items()
    ])  # fmt: skip


def _table(rows: list[tuple[str, Markup, str]]) -> Markup:
    return element(
        "table",
        *(
            element("tr", element("td", element("code", name)), element("td", kind), element("td", note))
            for name, kind, note in rows
        ),
    )


def _type(schema: Mapping[str, Any]) -> Markup:
    """A type in words; a record by its name, with a link to it."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return element("a", name, href=f"#{name}")
    if "anyOf" in schema:
        return _joined(" or ", [_type(one) for one in schema["anyOf"]])
    if "enum" in schema:
        return join([", ".join(map(str, schema["enum"]))])
    if schema.get("type") == "array":
        return join(["list of ", _type(schema.get("items", {}))])
    return join([str(schema.get("const") or schema.get("type") or "anything")])


def _joined(between: str, parts: list[Markup]) -> Markup:
    separated = [item for part in parts for item in (between, part)]
    return join(separated[1:])
