"""GPT-2 and its kin: a learned table of positions, which no key of the config names."""

from ropewalk.inspector.derive.families.base import Family, register

FAMILY = register(
    Family(
        ("gpt2", "gpt_bigcode", "starcoder", "gpt_neo", "opt", "bart", "mbart", "pegasus", "pegasus_x",
         "blenderbot", "whisper", "git", "openai-gpt", "xlm", "marian"),
        positions=lambda settings: "learned",
    )
)  # fmt: skip
