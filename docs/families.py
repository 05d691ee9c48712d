"""``families.md``: how a layer is known, what the table of families adds, what publishers say of length."""

from __future__ import annotations

from collections.abc import Iterator

from docs.markdown import code, doc, table
from ropewalk.inspector import published
from ropewalk.inspector.derive import families, patterns
from ropewalk.inspector.derive.class_defaults import SOURCE
from ropewalk.inspector.derive.families import Family


def families_page() -> str:
    """The whole page."""
    words: dict[str, list[str]] = {}
    for spelling, word in patterns._WORDS.items():
        words.setdefault(word, []).append(spelling)
    rules = [doc(rule) or "" for rule in patterns._CONFIG_RULES]
    periods = [
        [code(row.model_types), f"every {row.full_every}", "first" if row.full_first else "last"]
        for row in families.TABLE
        if row.full_every
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
            table("model types", "what it says", "why", rows=_families()),
            _DEFAULTS.format(source=SOURCE),
            _PUBLISHED,
            table("models", "trained", "described", "YaRN from", "rule", "source", rows=_published()),
        ]
    )


def _families() -> Iterator[list[str]]:
    for family in families.TABLE:
        yield [code(family.model_types), _says(family), family.why]


def _says(family: Family) -> str:
    said = {
        "positions": family.positions is not None,
        "layers without rotation": bool(family.nope_words),
        "state": family.state is not None,
        "no cache": family.encoder_only,
        "no attention": family.all_recurrent,
        f"{family.caches_per_layer} caches a layer": family.caches_per_layer > 1,
        "normalisation": family.normalisation is not None,
        f"base {family.rope_theta or 0:,.0f}": family.rope_theta is not None,
        f"{family.partial_rotary or 0:.0%} of each head": family.partial_rotary is not None,
        "base of sliding layers": family.sliding_theta is not None,
        "period in a GGUF": family.full_every is not None or family.nope_every is not None,
        "no window in a GGUF": family.gguf_window_off,
        "factor in the length": family.factor_included,
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
## The table of families

One row per family that neither fields nor tensors can describe, in `inspector/derive/families.py`:"""

_DEFAULTS = """
## Defaults

Where a config leaves out a value that its class fills in, the class default of {source} is used. It is
shown as `default`, and the tensors overrule it.
"""

_PUBLISHED = """## What publishers say of length

The one hand-kept table: lengths that no field of the checkpoint tells. A model is recognised by its fields,
never by the name of its repository."""
