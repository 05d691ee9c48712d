"""Requests to the Hub: a repository's listing, its small files, ranges of the others; never a weight.

Endpoint, token and timeout are huggingface_hub's (``HF_ENDPOINT``, ``HF_TOKEN``, ``hf auth login``, ...), so
that whoever is logged in there is logged in here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote

from ropewalk._version import __version__
from ropewalk.errors import CheckpointError, CheckpointMissingError, HubError
from ropewalk.inspector.readers.jsonfile import check_size, parse_object
from ropewalk.inspector.readers.safetensors import SNIFF_BYTES
from ropewalk.limits import MAX_HUB_BYTES, MAX_HUB_SECONDS

if TYPE_CHECKING:
    from httpx2 import Response

ATTEMPTS = 4
MAX_WAIT_S = 20.0
COMMIT = re.compile(r"[0-9a-f]{40}")
_RETRIED = frozenset({408, 429, 500, 502, 503, 504})
_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+)", re.ASCII)
T = TypeVar("T")
Need = Callable[[bytes, int], int]
"""``need(first_bytes, file_bytes)``: how many bytes of the file are wanted, as far as can be said yet."""


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes of a file, and how large the file is."""

    data: bytes
    file_bytes: int


@dataclass(frozen=True, slots=True)
class Listing:
    """A revision of a repository: its commit and the names of its files."""

    commit: str
    names: tuple[str, ...]


class _NoAnswer(Exception):
    """An answer that may be better next time."""

    def __init__(self, reason: str, *, status: int = 0, retry_after: str | None = None) -> None:
        super().__init__(reason)
        self.code = "hub_rate_limited" if status == 429 else "hub_error"
        # The other form of Retry-After, a date, is not worth a clock.
        self.wait_s = float(retry_after or 0) if (retry_after or "").isdecimal() else None


class HubClient:
    """One repository on the Hub; its methods may be called from several threads.

    Raises :class:`CheckpointMissingError` where the repository, revision or
    file does not exist, and :class:`HubError` where it is gated or private, or no answer comes within
    ``seconds`` for all that is asked.
    """

    def __init__(self, repo: str, *, seconds: float = MAX_HUB_SECONDS) -> None:
        import httpx2
        from huggingface_hub import constants, get_token

        token = get_token()
        self.repo = repo
        self._has_token = token is not None
        self._stopped = Event()
        self._seconds, self._until = seconds, monotonic() + seconds
        self._bytes_left = MAX_HUB_BYTES
        self._endpoint = constants.ENDPOINT.rstrip("/")
        self._http = httpx2.Client(
            headers={"user-agent": f"ropewalk/{__version__}", "accept-encoding": "identity"}
            | ({"authorization": f"Bearer {token}"} if token else {}),
            timeout=constants.HF_HUB_DOWNLOAD_TIMEOUT,
            follow_redirects=True,
            max_redirects=5,
        )

    def stop(self) -> None:
        """Try nothing again: what is asked for from other threads ends with its present attempt."""
        self._stopped.set()

    def close(self) -> None:
        """Close the connections to the Hub."""
        self._http.close()

    def listing(self, revision: str) -> Listing:
        """The commit that a branch, tag or commit names, and its files."""
        # Not huggingface_hub's HfApi.model_info: it reads an answer of any size whole before anything can be
        # said of it, and cannot be stopped between its attempts.
        url = f"{self._endpoint}/api/models/{self.repo}/revision/{quote(revision, safe='')}"
        raw = self._retried(lambda: self._whole(url, what=self.repo), what=self.repo)
        try:
            info = parse_object(raw, file=self.repo, what=f"the Hub's description of {self.repo}")
        except CheckpointError as error:
            raise self._error("hub_error", error.message) from error
        commit, siblings = str(info.get("sha")), info.get("siblings")
        if not COMMIT.fullmatch(commit) or not isinstance(
            siblings, list
        ):  # the commit becomes part of a path
            raise self._error(
                "hub_error", f"the Hub's description of {self.repo} lacks the commit or the files"
            )
        names = (item.get("rfilename") for item in siblings if isinstance(item, dict))
        return Listing(commit, tuple(sorted(name for name in names if isinstance(name, str))))

    def whole(self, commit: str, file: str) -> bytes:
        """A small file, up to the limit of a JSON document."""
        url = self._url(commit, file)
        return self._retried(lambda: self._whole(url, what=file), what=file)

    def part(self, commit: str, file: str, start: int, stop: int, *, need: Need) -> Part:
        """The bytes from ``start`` up to ``stop``, or fewer: the caller asks again for what is lacking.

        A server that ignores the range sends the file from its beginning. Of that, as much is read as
        ``need`` says, and then the connection is closed.
        """
        url = self._url(commit, file)
        return self._retried(lambda: self._part(url, file, start, stop, need), what=file)

    def _url(self, commit: str, file: str) -> str:
        return f"{self._endpoint}/{self.repo}/resolve/{quote(commit, safe='')}/{quote(file)}"

    def _whole(self, url: str, *, what: str) -> bytes:
        with self._answer(url, what=what) as response:
            data = bytearray()
            for chunk in response.iter_bytes():
                data += chunk
                check_size(len(data), file=what)
                self._spend(len(chunk), what)
            return bytes(data)

    def _part(self, url: str, file: str, start: int, stop: int, need: Need) -> Part:
        with self._answer(url, what=file, wanted=f"bytes={start}-{stop - 1}") as response:
            first, file_bytes = _extent(response, file)
            if response.status_code == 416:  # the file ends before
                return Part(b"", file_bytes)
            if first not in (0, start) or response.headers.get("content-encoding", "identity") != "identity":
                raise _NoAnswer(f"{file}: the Hub sent something else than the bytes asked for")
            data = bytearray()
            for chunk in response.iter_raw():
                self._require_time(file)
                data += chunk
                ranged = response.status_code == 206
                if len(data) >= (stop - first if ranged else need(bytes(data[:SNIFF_BYTES]), file_bytes)):
                    break
            return Part(bytes(data[start - first :]), file_bytes)

    def _spend(self, count: int, what: str) -> None:
        self._require_time(what)
        self._bytes_left -= count  # threads may lose a chunk of this sum: the limit is not that sharp
        if self._bytes_left < 0:
            limit = f"more than {MAX_HUB_BYTES:,} bytes of configuration files"
            raise self._error("hub_limit", f"{what}: {self.repo} has {limit}; no more is read")

    def _require_time(self, what: str) -> None:
        """An answer that never ends must not be waited for, though each of its bytes comes in time."""
        if monotonic() > self._until:
            raise self._error("hub_limit", f"{what}: the Hub took more than {self._seconds:g} s")

    @contextmanager
    def _answer(self, url: str, *, what: str, wanted: str | None = None) -> Iterator[Response]:
        """An answer worth reading, its body still on the way."""
        with self._http.stream("GET", url, headers={"range": wanted} if wanted else {}) as response:
            status = response.status_code
            if status in _RETRIED:
                after = response.headers.get("retry-after")
                raise _NoAnswer(f"{what}: the Hub answered {status}", status=status, retry_after=after)
            if status not in ((200, 206, 416) if wanted else (200,)):
                raise self._refusal(response, what)
            yield response

    def _retried(self, call: Callable[[], T], *, what: str) -> T:
        """Call until an answer comes, waiting as long as the server says, else longer each time."""
        import httpx2

        code, reason, wait_s = "hub_error", f"{what}: not asked for", None
        for attempt in range(ATTEMPTS):
            if attempt:
                self._wait(min(0.25 * 2**attempt if wait_s is None else wait_s, MAX_WAIT_S))
            if self._stopped.is_set():
                break
            self._require_time(what)
            try:
                return call()
            except _NoAnswer as error:
                code, reason, wait_s = error.code, str(error), error.wait_s
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                code, wait_s = "hub_unreachable", None
                reason = f"{what}: no answer from {self._endpoint} ({type(error).__name__}: {error})"
        raise self._error(code, f"{reason}; tried {ATTEMPTS} times")

    def _wait(self, seconds: float) -> None:
        self._stopped.wait(seconds)

    def _refusal(self, response: Response, what: str) -> CheckpointError:
        """Our error for an answer that will not change. The Hub's own word comes before the status."""
        status, word = response.status_code, response.headers.get("x-error-code")
        said = response.headers.get("x-error-message", "")
        if word == "GatedRepo":
            advice = "the token that you use has no access" if self._has_token else "log in, or set HF_TOKEN"
            return self._error("hub_gated", f"{self.repo} is gated: ask for access on its page; {advice}")
        if word == "RevisionNotFound":
            return self._missing("hub_revision_missing", f"{self.repo} has no such revision")
        if word == "EntryNotFound" or (status == 404 and what != self.repo and word != "RepoNotFound"):
            return self._missing("hub_file_missing", f"{self.repo} has no file {what}")
        if status == 401 and (self._has_token or "Invalid credentials" in said) and word != "RepoNotFound":
            return self._error(
                "hub_unauthorized", f"the Hub refuses the token for {self.repo}: {said or status}"
            )
        if status in (401, 404):
            hint = "" if self._has_token else ", or it is private (log in, or set HF_TOKEN)"
            return self._missing("hub_repository_missing", f"{self._endpoint} has no model {self.repo}{hint}")
        return self._error("hub_error", f"{what}: the Hub answered {status} {said}".rstrip())

    def _error(self, code: str, message: str) -> HubError:
        return HubError(message, code=code, where={"repository": self.repo, "endpoint": self._endpoint})

    def _missing(self, code: str, message: str) -> CheckpointMissingError:
        where = {"repository": self.repo, "endpoint": self._endpoint}
        return CheckpointMissingError(message, code=code, where=where)


def _extent(response: Response, file: str) -> tuple[int, int]:
    """Where the body of an answer starts in the file, and how large the file is."""
    if response.status_code == 200:
        first, size = "0", response.headers.get("content-length", "")
    else:
        match = _RANGE.fullmatch(response.headers.get("content-range", ""))
        first, size = (match[1] or "0", match[2]) if match else ("0", "")
    if not size.isdecimal() or len(size) > 18:
        raise _NoAnswer(f"{file}: the Hub does not say how large it is")
    return int(first), int(size)
