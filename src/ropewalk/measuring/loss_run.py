"""One arm led through the texts: their losses at every stop, and those of passages that are repeated."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from ropewalk.errors import UsageError
from ropewalk.measuring.arms import Arm
from ropewalk.measuring.events import TextSent
from ropewalk.measuring.loss.layout import Walk, copy_walk, text_walk
from ropewalk.measuring.loss.reader import LossReader, Readable
from ropewalk.measuring.loss.records import ProbeText, Read
from ropewalk.measuring.recall.haystack import read_text
from ropewalk.measuring.recall.recall_runner import RecallRunner
from ropewalk.measuring.recall.tasks import find_task
from ropewalk.measuring.schedule import Step, depths_of
from ropewalk.measuring.session import Session

_MOST_CHARACTERS = 16  # of a token, on average over a text


class LossRun:
    """The texts of a session in front of one server; what is read is stored as it is read.

    Without texts of the user's own, the text is the haystack of the longest prompt, whose questions then find
    it in the server's cache.
    """

    def __init__(self, session: Session, arm: Arm, exam: RecallRunner, client: Readable) -> None:
        self.session = session
        self.arm = arm
        self.exam = exam
        reading = session.reading
        self.is_wanted = session.settings.reads and reading is not None
        self.reader = LossReader(arm.name, client, reading or "stops", exam.identity)

    def before(self, step: Step) -> bool:
        """Read the haystack of these questions, if it is the text; whether the server has it in its cache."""
        if not self.is_wanted or not self.session.is_walked(step, self.arm):
            return False
        return self._read(self._walk("loss", *self._haystack()))

    def rest(self) -> None:
        """Whatever of the texts was not read yet, one text after the other."""
        if not self.is_wanted:
            return
        for text, tokens in self._texts():
            for probe in ("loss", "copy"):
                if probe in self.session.settings.probes:
                    self._read(self._walk(probe, text, tokens))

    def require_same(self) -> None:
        """A resumed arm goes on as it began: no loss of another engine, other weights or another text.

        Raises :class:`UsageError`.
        """
        spans = self.session.losses[self.arm.name]
        if not spans or not self.is_wanted:
            return
        walks = [self._walk(probe, *text) for text in self._texts() for probe in ("loss", "copy")]
        keys = {self.reader.key(walk, stop) for walk in walks for stop in walk.stops}
        if not {span.key for span in spans} <= keys:
            raise UsageError(
                f"run {self.session.run_id} cannot go on: the engine, weights or texts of {self.arm.label} "
                "have changed; begin a new one",
                code="run_not_resumable",
                where={"run": self.session.run_id, "arm": self.arm.name},
            )

    def _read(self, walk: Walk) -> bool:
        """Read what is open of a walk; whether there was anything."""
        session, pace = self.session, self.session.pace
        known = {span.key for span in session.losses[self.arm.name]}
        any_read = False
        for timed in self.reader.read(walk, known=known):
            span = timed.span
            if not any_read:
                session.emit(TextSent(self.arm.name, span.probe, len(walk.tokens)))
            any_read = True
            if span.seconds is not None and span.evaluated is not None:
                pace.seen(span.start - span.evaluated, span.start, span.seconds)
            if timed.read_seconds is not None:
                pace.read(span.start, len(span.losses), timed.read_seconds)
            session.add_losses(span)
        return any_read

    def _walk(self, probe: Read, text: str, tokens: tuple[int, ...]) -> Walk:
        """The part of a text that this arm is led through. Passages are repeated only by an arm that takes
        the whole of it: at another length they would not be the same."""
        length, per_stop = self.session.walk_len(self.arm), self.session.per_stop
        if probe == "loss":
            return text_walk(text, tokens[:length], per_stop=per_stop)
        if length < self.session.lengths[-1]:
            return Walk(text, (), ())
        return copy_walk(text, tokens[:length], per_stop=per_stop)

    def _texts(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Each text by its fingerprint, with as many tokens as the longest prompt has."""
        names = self.session.settings.texts
        found = [self._file(name) for name in names] if names else [self._prose()]
        self.session.note_texts([text for text, _ in found])
        return iter([(text.sha256, tokens) for text, tokens in found])

    def _haystack(self) -> tuple[str, tuple[int, ...]]:
        return next(self._texts())

    def _prose(self) -> tuple[ProbeText, tuple[int, ...]]:
        """What stands before the questions of the longest prompt."""
        settings, length = self.session.settings, self.session.lengths[-1]
        task = find_task(settings.tasks[0])
        prompt = self.exam.builder.prompts(
            task, length=length, depths=depths_of(task, settings), seed=settings.seed
        )[0]
        tokens = prompt.tokens[: prompt.shared_len]
        digest = hashlib.sha256(",".join(map(str, tokens)).encode()).hexdigest()
        return ProbeText(settings.haystack, digest, len(tokens)), tokens

    def _file(self, name: str) -> tuple[ProbeText, tuple[int, ...]]:
        text = read_text(Path(name))
        length = self.session.lengths[-1]
        tokens = self.exam.builder.vocabulary.text(text[: length * _MOST_CHARACTERS])[:length]
        digest = hashlib.sha256(text.encode()).hexdigest()
        return ProbeText(Path(name).name, digest, len(tokens)), tuple(tokens)
