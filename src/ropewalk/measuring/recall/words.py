"""Draws from a seed, and what is drawn: words of synthetic prose and keys of needles. No word is in both."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class SeededRandom:
    """Draws from one seed. Only ``Random.random`` is used: the one sequence that Python guarantees."""

    def __init__(self, *seed: object) -> None:
        self._random = Random("/".join(map(str, seed)))  # noqa: S311  prompts, not secrets

    def below(self, bound: int) -> int:
        """A whole number from 0 to ``bound`` - 1."""
        return int(self._random.random() * bound)

    def pick(self, items: Sequence[T]) -> T:
        """One item, drawn with the given random numbers."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """All items in another order (Fisher and Yates)."""
        mixed = list(items)
        for last in range(len(mixed) - 1, 0, -1):
            other = self.below(last + 1)
            mixed[last], mixed[other] = mixed[other], mixed[last]
        return mixed

    def digits(self, count: int) -> str:
        """A number of exactly ``count`` digits."""
        return str(10 ** (count - 1) + self.below(9 * 10 ** (count - 1)))

    def text(self, alphabet: str, count: int) -> str:
        """``count`` characters of the alphabet."""
        return "".join(self.pick(alphabet) for _ in range(count))


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


PEOPLE = _words(
    """
    baker ferryman teacher carpenter gardener fisherman widow doctor tailor miller shepherd clerk captain
    innkeeper painter mason weaver cook sailor neighbour stranger blacksmith postman farmer
    """
)
QUALITIES = _words(
    """
    old young quiet cheerful tired patient clever shy stubborn careful gentle proud busy honest lonely
    curious tall careless
    """
)
DEEDS = _words(
    """
    carried repaired painted washed sold borrowed found counted hid polished dropped measured opened
    delivered admired wrapped examined lifted mended emptied
    """
)
THINGS = _words(
    """
    basket ladder boat kettle coat bench wagon barrel mirror rope blanket chair clock broom net table
    bucket sail hammer cart trunk door jar saddle
    """
)
LOOKS = _words(
    """
    wooden heavy broken green small dusty painted narrow borrowed rusty grey new wet crooked plain large
    """
)
PLACES = _words(
    """
    market harbour bridge church mill orchard station well school river tavern square barn lighthouse
    bakery courtyard meadow stable
    """
)
TIMES = (
    "In the morning", "After lunch", "Before the rain", "Late in the evening", "On the way home",
    "As usual", "During the harvest", "At the end of the week", "When the bells rang", "Once again",
    "Without a word", "Early in the spring", "Towards noon", "In spite of the cold",
)  # fmt: skip
WEATHER = (
    "the wind turned to the west", "the fog came in from the sea", "it rained until the evening",
    "the sun stood low over the roofs", "the snow had melted from the fields", "the air smelled of smoke",
    "the tide was going out", "the streets were nearly empty", "the leaves were still wet",
    "a thin mist lay over the water", "the shutters rattled in the storm", "the ice on the pond had cracked",
)  # fmt: skip
THOUGHTS = (
    "nobody had noticed", "the work would soon be done", "there was still time", "it was not worth it",
    "the others would come later", "winter was close", "everything was in its place",
    "somebody ought to help", "the road was too long", "it had always been like that",
)  # fmt: skip

# Short sentences by which a prompt is filled to its exact length.
FILLERS = (
    "It rained.", "Nobody spoke.", "So it went on.", "The day was long.", "Nothing else happened.",
    "The lamps were lit early.", "All was quiet once more.", "Then everyone went back to work.",
    "A dog barked.", "Time passed.", "The bread was warm.", "Some of them laughed.",
    "The old road led down to the sea.", "There was a smell of hay in the air.",
    "One after another the windows went dark.", "It was said that the summer would be short this year.",
)  # fmt: skip

KEYS = _words(
    """
    falcon amber violin copper panther lemon saturn velvet tiger marble garlic pearl cactus dolphin ginger
    walnut comet lizard silver cherry piano falafel canyon coral monkey jasmine trumpet tulip emerald walrus
    pepper glacier zebra saffron beetle mango turtle raven crystal olive badger maple giraffe rocket lotus
    otter cinnamon parrot vanilla quartz salmon orchid camel almond guitar hornet papaya leopard mustard
    penguin ruby spider banana volcano peacock thunder basil puma lavender magnet hazel gorilla tomato eagle
    sapphire cobra biscuit jaguar acorn pumpkin onyx heron cabbage meteor iguana drum apricot ivory lobster
    willow sparrow celery planet moose honey granite squid clover flute panda radish topaz vulture cocoa
    ostrich bamboo wizard gecko rhubarb diamond ferret spinach lantern hyena raisin opal crane
    """
)
