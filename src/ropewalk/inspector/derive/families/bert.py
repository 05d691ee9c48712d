"""Encoders: every token sees every other, and nothing is kept between steps."""

from ropewalk.inspector.derive.families.base import Family, register

FAMILY = register(
    Family(
        ("bert", "roberta", "xlm-roberta", "camembert", "electra", "albert", "distilbert", "mpnet"),
        positions=lambda settings: "learned",
        encoder_only=True,
    )
)
ROTARY = register(
    Family(
        ("modernbert", "modern-bert", "nomic_bert", "nomic-bert"),
        encoder_only=True,
        normalisation="LayerNorm",
    )
)
EUROBERT = register(Family(("eurobert",), encoder_only=True))
