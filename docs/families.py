"""``families.md``: how a layer's kind is found, what family files add, and what publishers say of length."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

from docs.markdown import code, doc, table
from ropewalk.inspector import published
from ropewalk.inspector.derive import families, patterns
from ropewalk.inspector.derive.class_defaults import SOURCE
from ropewalk.inspector.derive.families.base import Family


def families_page() -> str:
    """The whole page."""
    words: dict[str, list[str]] = {}
    for spelling, word in patterns._WORDS.items():
        words.setdefault(word, []).append(spelling)
    rules = [doc(rule) or "" for rule in patterns._CONFIG_RULES]
    periods = [
        [f"`{arch}`", f"every {period}", "first" if first else "last"]
        for arch, (period, first) in patterns._GGUF_PERIODS.items()
    ]
    return "\n".join(
        [
            _INTRODUCTION,
            *(f"{number}. {text}" for number, text in enumerate(rules, start=1)),
            _SPELLINGS,
            table("kind", "spellings", rows=[(f"`{word}`", code(found)) for word, found in words.items()]),
            _GGUF,
            table("architecture", "full attention", "which of them", rows=periods),
            _FAMILIES,
            table("file", "model types", "what it says", "why", rows=_families()),
            _DEFAULTS.format(source=SOURCE),
            _PUBLISHED,
            table("models", "trained", "described", "YaRN from", "rule", "source", rows=_published()),
        ]
    )


def _families() -> Iterator[list[str]]:
    for module in families._REGISTERED:
        for family in _in(module):
            yield [
                f"`{module.__name__.rpartition('.')[2]}`",
                code(family.model_types),
                _says(family),
                doc(module),
            ]


def _in(module: ModuleType) -> list[Family]:
    return [value for value in vars(module).values() if isinstance(value, Family)]


def _says(family: Family) -> str:
    said = {
        "positions": family.positions is not None,
        "layers without rotation": bool(family.nope_words),
        "state": family.state is not None,
        "no cache": family.encoder_only,
        "no attention": family.all_recurrent,
        f"{family.caches_per_layer} caches a layer": family.caches_per_layer > 1,
        "normalisation": family.normalisation is not None,
    }
    return ", ".join(name for name, is_said in said.items() if is_said)


def _published() -> Iterator[list[str]]:
    for row in published._TABLE:
        rule = row.rule
        start = f"{rule.yarn_original:,}" if rule.yarn_original else "–"
        yield [
            rule.name, f"{rule.native_context:,}", f"{rule.max_validated:,}", start, rule.note, rule.source,
        ]  # fmt: skip


_INTRODUCTION = """# Families

Most models need no rule of their own: what a layer keeps is told by the fields of the config and by the
tensors. A model type that is not known is an ordinary case, with a finding.

Sizes come from the tensors where they are stored (heads, widths, latent ranks, experts), else from the
config, else they are marked as assumed.

## How the kind of each layer is found

The first of these rules that applies decides; where none does, all layers attend to everything:
"""

_SPELLINGS = """
The words of the lists mean:"""

_GGUF = """
## GGUF

A GGUF states its window and often its pattern. Where it does not, llama.cpp's own period counts (b11434):"""

_FAMILIES = """
## Family files

One file per family that neither fields nor tensors can describe, in `inspector/derive/families/`:"""

_DEFAULTS = """
## Defaults

Where a config leaves out a value that its class fills in, the class default of {source} is used. It is
shown as `default`, and the tensors overrule it.
"""

_PUBLISHED = """## What publishers say of length

The one hand-kept table: lengths that no field of the checkpoint tells. A model is recognised by its fields,
never by the name of its repository."""
