"""The server's own tokenizer and chat template, as far as prompts need them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from ropewalk.errors import UsageError
from ropewalk.measuring.recall.reasoning import open_reasoning

Form = Literal["prefill", "chat", "completion"]
Thinking = Literal["off", "closed", "unknown"]

_PLACE = "ropewalk-place-of-the-text"


class Tokenizing(Protocol):
    """The part of a server's client that prompts are built with."""

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]: ...

    def apply_template(
        self, messages: Sequence[Mapping[str, str]], *, template_options: Mapping[str, Any] | None = None
    ) -> str | None: ...


@dataclass(slots=True)
class Vocabulary:
    """A tokenizer that remembers its answers; ``memo`` may be handed on to the next server of a model.

    ``joint`` is what a sentence needs in front of it so that the tokens of parts, put together, are the
    tokens of the whole: a space, or nothing where the tokenizer adds one itself (SentencePiece).
    """

    server: Tokenizing
    memo: dict[str, list[int]] = field(default_factory=dict)
    joint: str = field(init=False)

    def __post_init__(self) -> None:
        first, second = "It rained.", "Nobody spoke."
        self.joint = (
            "" if self._plain(first) + self._plain(second) == self._plain(f"{first} {second}") else " "
        )

    def sentence(self, text: str) -> list[int]:
        """Tokens of a sentence that follows another; control tokens in it are read as plain text."""
        tokens = self.memo.get(text)
        if tokens is None:
            tokens = self.memo[text] = self._plain(self.joint + text)
        return tokens

    def start(self, text: str) -> list[int]:
        """Tokens of a prompt's start, with the special tokens that belong before it, none after it.

        Those that the text itself begins with are not put before it once more.
        """
        plain, full = self._started(text)
        if _doubled(plain, full):
            return plain
        for stop in range(len(plain), len(full)):
            if full[stop - len(plain) : stop] == plain:
                return full[:stop]
        return full

    def doubles_start(self, text: str) -> bool:
        """Whether a text begins with the special tokens that the tokenizer puts before it as well."""
        return _doubled(*self._started(text))

    def _started(self, text: str) -> tuple[list[int], list[int]]:
        """The tokens of a text, without and with what the tokenizer adds."""
        return self.end(text), self.server.tokenize(text, add_special=True, parse_special=True)

    def end(self, text: str) -> list[int]:
        """Tokens of a prompt's end."""
        return self.server.tokenize(text, add_special=False, parse_special=True)

    def text(self, text: str) -> list[int]:
        """Tokens of a text from its start: the special tokens that belong before it, none after it; control
        tokens in it are read as plain text."""
        plain = self._plain(text)
        full = self.server.tokenize(text, add_special=True, parse_special=False)
        before = next((at for at in range(len(full)) if full[at : at + len(plain)] == plain), 0)
        return full[:before] + plain

    def _plain(self, text: str) -> list[int]:
        return self.server.tokenize(text, add_special=False, parse_special=False)


def _doubled(plain: Sequence[int], full: Sequence[int]) -> bool:
    """Whether what was added stands at the start already: one start token before another like it."""
    return bool(plain) and list(full[1 : 1 + len(plain)]) == list(plain) and full[0] == full[1]


@dataclass(frozen=True, slots=True)
class Frame:
    """What stands around the text: the chat template's two halves, empty in the completion form.

    ``prefill`` opens the answer inside the assistant's turn, as RULER does; ``chat`` leaves the whole
    answer to the model; ``completion`` is for base models, which have no template.

    ``thinking`` says how thoughts are kept out: ``off`` by the template's own switch, ``closed`` where the
    template begins a thought whatever it is told and the prompt ends it at once, ``unknown`` where the
    template knows of no thoughts.
    """

    form: Form
    before: str
    after: str
    thinking: Thinking = "unknown"

    @property
    def sha256(self) -> str:
        """Identifies the template: recall is comparable only under the same one (NVIDIA/RULER#54)."""
        return hashlib.sha256("\0".join((self.form, self.before, self.after)).encode()).hexdigest()


def make_frame(server: Tokenizing, form: Form) -> Frame:
    """The frame of a form, without thoughts; a model without a chat template gets ``completion`` instead.

    Raises :class:`UsageError` where the template does not show the user's text once, as it is.
    """
    rendered = None if form == "completion" else _rendered(server, enable_thinking=False)
    if rendered is None:
        return Frame("completion", "", "")
    if rendered.count(_PLACE) != 1:
        raise UsageError("the chat template does not pass the user's text on as it is", code="chat_template")
    before, after = rendered.split(_PLACE)
    if closing := open_reasoning(after):
        return Frame(form, before, f"{after.rstrip()}\n\n{closing}\n\n", "closed")
    is_switched = rendered != _rendered(server, enable_thinking=True)
    return Frame(form, before, after, "off" if is_switched else "unknown")


def _rendered(server: Tokenizing, *, enable_thinking: bool) -> str | None:
    """A chat of one message; the option is that of Qwen3's template, which most later ones share."""
    message = {"role": "user", "content": _PLACE}
    return server.apply_template([message], template_options={"enable_thinking": enable_thinking})
