"""A running measurement on standard error: a bar with the time left, and a line for whatever is done."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ropewalk.measuring import events
from ropewalk.report.figures import plural
from ropewalk.report.grid import MARKS
from ropewalk.units import format_seconds, format_tokens

_PROBES = {"loss": "loss", "copy": "loss of repeated passages"}


class MeasureProgress:
    """Takes the events of a measurement as a callable; a context manager around the run.

    Where ``console`` is no terminal there is no bar, only the lines.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:3.0f}% {task.fields[left]}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._bar = self._progress.add_task("starting", total=None, left="")
        self._is_estimated = False  # later ones are on the bar
        self._labels: dict[str, str] = {}
        self._marks: dict[int, str] = {}
        self._read: dict[str, list[float]] = {}

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, event: events.Event) -> None:
        match event:
            case events.RunStarted():
                self._say(f"run {event.run_id}; resume with --resume {event.run_id}")
            case events.GridChosen():
                self._say(_grid(event))
            case events.ArmStarted():
                self._labels[event.arm] = event.label
                self._marks, self._read = {}, {}
                self._describe(f"{event.label}: starting the server")
            case events.ArmReady():
                context = format_tokens(event.context_reported)
                ready = format_seconds(event.ready_seconds)
                self._say(f"{self._labels.get(event.arm, event.arm)}: {context} tokens served after {ready}")
            case events.Estimated():
                if not self._is_estimated and event.progress.seconds_left:
                    self._is_estimated = True
                    self._say(f"about {format_seconds(event.progress.seconds_left)} from here")
            case events.PromptSent():
                label = self._labels.get(event.arm, event.arm)
                self._describe(f"{label}: {event.task}, {format_tokens(event.length)} tokens")
            case events.TextSent():
                label = self._labels.get(event.arm, event.arm)
                self._describe(f"{label}: {_PROBES[event.probe]}, {format_tokens(event.length)} tokens")
            case events.LossesRead():
                self._losses(event)
            case events.TrialEnded():
                self._trial(event)
            case events.CampaignStarted():
                self._say(f"{plural(event.num_tasks, 'task')} on {event.machines}")
                self._describe("waiting for the first task")
            case events.TaskEnded():
                self._say(_task(event))
                self._describe(f"{event.num_ended} of {event.num_tasks} tasks")
            case events.ArmEnded():
                for length, marks in sorted(self._marks.items()):
                    self._say(f"  {format_tokens(length):>9}  {marks}")
                for probe, losses in self._read.items():
                    mean = f"{sum(losses) / len(losses):.2f} nats per token"
                    self._say(f"  {_PROBES[probe]}: {mean}, {plural(len(losses), 'token')} read")
            case _:
                pass

    def _trial(self, event: events.TrialEnded) -> None:
        trial = event.trial
        marks = self._marks.get(trial.length, "")
        self._marks[trial.length] = f"{marks} {MARKS[trial.outcome].symbol}".lstrip()
        self._advance(event.progress)

    def _losses(self, event: events.LossesRead) -> None:
        read = self._read.setdefault(event.span.probe, [])
        read += event.span.losses
        self._advance(event.progress)

    def _advance(self, progress: events.Progress) -> None:
        left = "" if progress.seconds_left is None else f"{format_seconds(progress.seconds_left)} left"
        self._progress.update(
            self._bar, completed=progress.done_tokens, total=progress.total_tokens, left=left
        )

    def _describe(self, text: str) -> None:
        self._progress.update(self._bar, description=text)

    def _say(self, line: str) -> None:
        self._console.print(line, soft_wrap=True)


def _grid(event: events.GridChosen) -> str:
    lengths = ", ".join(format_tokens(length) for length in event.lengths)
    if not event.depths:
        return f"reading losses up to {format_tokens(event.lengths[-1])} tokens"
    depths, times = plural(len(event.depths), "depth"), plural(event.trials, "haystack")
    return f"asking at {lengths} tokens, {depths}, {times}"


def _task(event: events.TaskEnded) -> str:
    again = "" if event.attempt == 1 else f", attempt {event.attempt}"
    if event.reason is None:
        ended = f"back from {event.node or 'a worker that cannot run it'}{again}"
    else:
        ended = f"lost{f' on {event.node}' if event.node else ''}{again}: {event.reason}"
    return f"{event.num_ended} of {event.num_tasks}  {event.label}: {ended}"
