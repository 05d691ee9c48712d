"""A question that shares no word with its needle: a landmark is told, its city is asked for.

After NoLiMa (A. Modarressi and others, 2025, arXiv 2502.05167), whose needle sets are under a research
licence: these are our own. NoLiMa has one needle in a haystack; here those of all depths stand in one, so
that each question has the other people as distractors.
"""

from __future__ import annotations

from collections.abc import Sequence

from ropewalk.measuring.recall.tasks.records import Draft, Needle, Question
from ropewalk.measuring.recall.words import SeededRandom

PLACES = {
    "Paris": "Eiffel Tower",
    "Rome": "Colosseum",
    "London": "clock called Big Ben",
    "Berlin": "Brandenburg Gate",
    "Athens": "Acropolis",
    "New York": "Statue of Liberty",
    "Barcelona": "towers of the Sagrada Familia",
    "Moscow": "Kremlin",
    "Prague": "Charles Bridge",
    "San Francisco": "Golden Gate Bridge",
    "Copenhagen": "statue of the Little Mermaid",
    "Beijing": "Forbidden Palace",
    "Rio de Janeiro": "statue of Christ on the Corcovado",
    "Brussels": "Atomium",
    "Istanbul": "Hagia Sophia",
    "Venice": "Rialto Bridge",
}
PEOPLE = (
    "Marta", "Yuki", "Lloyd", "Agnes", "Tobias", "Zora", "Ingrid", "Mateo", "Farah", "Conrad", "Ottilie",
    "Kwame", "Bruno", "Selma", "Rashid", "Delphine", "Igor", "Nadia", "Winston", "Perpetua",
)  # fmt: skip


def association(dice: SeededRandom, depths: Sequence[float]) -> Draft:
    """One person with a view for every depth."""
    cities = dice.shuffled(list(PLACES))[: len(depths)]
    people = dice.shuffled(PEOPLE)[: len(depths)]
    needles = [
        Needle(depth, f"{person} can see the {PLACES[city]} from the kitchen window.")
        for depth, person, city in zip(depths, people, cities, strict=True)
    ]
    questions = [
        Question(depth, f"Who lives in {city}?", f"The one who lives in {city} is", (person,), index)
        for index, (depth, person, city) in enumerate(zip(depths, people, cities, strict=True))
    ]
    intro = "Some people and what they see are told of in this text. Remember them.\n\n"
    return Draft(intro, tuple(needles), tuple(questions), tuple(people))
