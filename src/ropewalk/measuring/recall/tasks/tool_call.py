"""A tool call after a long history: strict JSON whose argument stood far back.

After what is asked of agents (BFCL, S. Patil and others, 2025, has calls of many turns in long contexts):
there a set of tools is offered and run, here the question names one tool and its one argument is what is
recalled. The answer is parsed: anything beside the one JSON object is a miss, and so is a fence around it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from ropewalk.measuring.recall.tasks.records import Draft, Needle, Question, distinct
from ropewalk.measuring.recall.words import KEYS, SeededRandom

_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ"


def call(dice: SeededRandom, depths: Sequence[float]) -> Draft:
    """One booking for every depth."""
    values = distinct(lambda: f"{dice.text(_LETTERS, 3)}{dice.digits(4)}", len(depths))
    keys = dice.shuffled(KEYS)[: len(depths)]
    needles = [
        Needle(depth, f"The booking of the group {key} has the reference {value}.")
        for depth, key, value in zip(depths, keys, values, strict=True)
    ]
    questions = [
        Question(depth, _ask(key), f"The call for the group {key}:", (_json(value),), index)
        for index, (depth, key, value) in enumerate(zip(depths, keys, values, strict=True))
    ]
    intro = "Bookings are hidden in this text. Remember their references.\n\n"
    return Draft(intro, tuple(needles), tuple(questions), tuple(map(_json, values)))


def _ask(key: str) -> str:
    return (
        f"Call the tool cancel_booking with the reference of the group {key}. Answer with JSON alone, on one "
        'line, such as {"name": "cancel_booking", "arguments": {"reference": "ABC0000"}}'
    )


def _json(value: str) -> str:
    return json.dumps({"name": "cancel_booking", "arguments": {"reference": value}})
