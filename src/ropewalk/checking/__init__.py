"""Judges a ``vllm serve`` or ``llama-server`` command line that somebody already has."""

from __future__ import annotations

from ropewalk.checking.check import check_command, model_source
from ropewalk.checking.documents import read_document
from ropewalk.checking.records import CheckResult, Corrected, Resolved

__all__ = ["CheckResult", "Corrected", "Resolved", "check_command", "model_source", "read_document"]
