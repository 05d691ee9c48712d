"""Data as YAML in the order in which it stands, several lines of text as a block."""

from __future__ import annotations

from typing import Any


def yaml_text(*documents: Any) -> str:
    """The documents, separated by ``---`` where there are several."""
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes what occurs twice twice: anchors are for no reader."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    Dumper.add_representer(str, _text)
    texts = [
        yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=2**16)
        for document in documents
    ]
    return "---\n".join(texts)


def _text(dumper: Any, value: str) -> Any:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)
