"""What a measurement is made of, and the lengths that it asks at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Required

from typing_extensions import TypedDict

from ropewalk.engines import EngineName
from ropewalk.errors import UsageError
from ropewalk.limits import MAX_TRIALS
from ropewalk.measuring.cluster.settings import CampaignSettings
from ropewalk.measuring.loss.layout import MOST_PER_STOP, TOKENS_PER_STOP
from ropewalk.measuring.loss.records import Probe
from ropewalk.measuring.recall.prompt import longest_prompt
from ropewalk.measuring.recall.statistics import SPRT_CAP
from ropewalk.measuring.recall.tasks import Task, find_task
from ropewalk.measuring.recall.vocabulary import Form
from ropewalk.planner.options import ServerOptions
from ropewalk.planner.pace import Pace
from ropewalk.validation import checked

BASE_LEN = 2048  # short enough for every model that is served at long context, and cheap
CHAT_TOKENS = 32  # more for an answer that makes a sentence of its own
LEAST_PER_STOP = 2
TAIL_TOKENS = 80  # what a further question about a haystack costs: fill, question, opening

_EXPECTED = {"depths": "--depths are shares from 0 to 1, such as 0.5, each given once"}


@dataclass(frozen=True, slots=True)
class MeasureSettings:
    """The grid and how it is asked; all of it goes into the record.

    ``lengths`` are prompts in tokens, None for a short one and the longest of every arm; ``depths``
    shares of the prompt; ``trials`` per cell, each with a haystack of its own, cut short per length as
    soon as the sequential test has decided (``early_stop``). ``haystack`` is ``prose``, ``noise`` or a
    text file; ``answer_tokens`` None takes the task's own budget. ``minutes`` picks lengths and trials
    for about that time. ``plan`` are further fields of the request for every arm.

    ``probes`` are what is measured: ``recall`` by these questions, ``loss`` and ``copy`` from the probability
    of given tokens, in the haystack of the longest prompt or, where there are any, in ``texts``: files.
    ``tokens_per_stop`` are read at every stop of a server that shows one token at a time.
    """

    tasks: tuple[str, ...] = ("niah_single",)
    lengths: tuple[int, ...] | None = None
    depths: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)
    trials: int = 1
    early_stop: bool = True
    seed: int = 1
    haystack: str = "prose"
    form: Form = "prefill"
    answer_tokens: int | None = None
    threads: int | None = None
    minutes: float | None = None
    plan: ServerOptions = field(default_factory=ServerOptions)
    probes: tuple[Probe, ...] = ("recall",)
    texts: tuple[str, ...] = ()
    tokens_per_stop: int = TOKENS_PER_STOP

    def checked(self) -> MeasureSettings:
        """The same, if it can be measured. Raises :class:`UsageError`."""
        checked(self)
        for task in self.tasks:
            find_task(task)
        for name, wrong in (
            ("tasks", not self.tasks),
            ("lengths", self.lengths is not None and not self.lengths),
            ("depths", not self.depths or any(not 0 <= depth <= 1 for depth in self.depths)),
            ("depths", len(set(self.depths)) < len(self.depths)),
            ("trials", not 1 <= self.trials <= MAX_TRIALS),
            ("minutes", self.minutes is not None and self.minutes <= 0),
            ("probes", not self.probes or len(set(self.probes)) < len(self.probes)),
            ("texts", len(set(self.texts)) < len(self.texts)),
            ("tokens_per_stop", not 1 <= self.tokens_per_stop <= MOST_PER_STOP),
        ):
            if wrong:
                value = getattr(self, name)
                raise UsageError(
                    _EXPECTED.get(name, f"{name} {value!r} cannot be measured"),
                    where={"field": name, "value": value},
                )
        return self

    def budget_of(self, task: Task) -> int:
        """Tokens that an answer may take."""
        free = CHAT_TOKENS if self.form == "chat" else 0
        return self.answer_tokens or task.answer_tokens + free

    @property
    def reads(self) -> bool:
        """Whether losses are read."""
        return bool({"loss", "copy"} & set(self.probes))

    @property
    def longest_answer(self) -> int:
        """The largest answer budget of all tasks."""
        return max(self.budget_of(find_task(name)) for name in self.tasks)


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a user wants measured.

    ``arms``: ``shipped``, ``auto`` (what the plan decides), ``yarn:F``, ``yarn:sweep`` (several factors),
    ``unscaled``; ``context_len`` is the target in tokens. Without ``engine`` it is the one for the
    checkpoint's format, at ``engine_path`` where that is given. ``resume`` goes on with a stored run by its
    own target, arms and settings. ``on`` has each arm measured as a task of its own, here or on a cluster.
    """

    context_len: int
    arms: tuple[str, ...] = ("shipped", "auto")
    engine: EngineName | None = None
    engine_path: str | None = None
    settings: MeasureSettings = field(default_factory=MeasureSettings)
    resume: str | None = None
    on: CampaignSettings | None = None


class MeasureOptions(TypedDict, total=False):
    """A :class:`RunRequest` and its :class:`MeasureSettings` as keywords; ``on`` may be a place alone."""

    context_len: Required[int]
    arms: tuple[str, ...]
    engine: EngineName | None
    engine_path: str | None
    resume: str | None
    on: str | CampaignSettings | None
    tasks: tuple[str, ...]
    lengths: tuple[int, ...] | None
    depths: tuple[float, ...]
    trials: int
    early_stop: bool
    seed: int
    haystack: str
    form: Form
    answer_tokens: int | None
    threads: int | None
    minutes: float | None
    plan: ServerOptions
    probes: tuple[Probe, ...]
    texts: tuple[str, ...]
    tokens_per_stop: int


def default_lengths(contexts: Iterable[int], *, answer_tokens: int) -> tuple[int, ...]:
    """A short prompt, and the longest that each context takes beside its answer; shortest first."""
    longest = sorted({longest_prompt(context, answer_tokens=answer_tokens) for context in contexts})
    return tuple(sorted({min(BASE_LEN, (longest[0] + answer_tokens + 1) // 4), *longest}))


Reading = Callable[[int], float]  # tokens per stop to the seconds that reading them takes, over all arms
Asked = Callable[[Sequence[int]], Sequence[int]]  # a grid's lengths to those that all arms are asked at


def within_minutes(
    settings: MeasureSettings, asked: Asked, pace: Pace, *, reading: Reading = lambda per_stop: 0.0
) -> MeasureSettings:
    """Settings whose grid takes about ``minutes``: the short length, then the longest, then the others.

    What is left over goes into trials. The short length is kept whatever it costs. Reading losses takes at
    most a quarter of the time, with fewer tokens per stop where it would take more. ``minutes`` is None in
    the result: the choice is made.
    """
    lengths = settings.lengths
    assert lengths  # noqa: S101 - fixed when the session began
    seconds = (settings.minutes or 0) * 60
    per_stop = settings.tokens_per_stop
    while per_stop > LEAST_PER_STOP and reading(per_stop) > seconds / 4:
        per_stop //= 2
    settings = replace(settings, tokens_per_stop=per_stop)
    seconds -= reading(per_stop)
    shortest, *others = lengths
    chosen: tuple[int, ...] = (shortest,)
    for length in reversed(others):
        longer = tuple(sorted((*chosen, length)))
        if round_seconds(asked(longer), settings, pace) <= seconds:
            chosen = longer
    rounds = int(seconds / max(round_seconds(asked(chosen), settings, pace), 1e-3))
    most = max(1, SPRT_CAP // len(settings.depths))
    return replace(settings, lengths=chosen, trials=min(max(rounds, 1), most), minutes=None)


def round_seconds(asked: Sequence[int], settings: MeasureSettings, pace: Pace) -> float:
    """One haystack at each of these lengths: the long part evaluated once, then every depth's question."""
    more = (len(settings.depths) - 1) * pace.question_seconds
    return sum(pace.seconds(0, length) + more for length in asked) * len(settings.tasks)
