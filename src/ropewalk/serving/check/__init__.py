"""Judges a ``vllm serve`` or ``llama-server`` command line that somebody already has."""

from __future__ import annotations

from ropewalk.serving.check.check import check_command, model_source
from ropewalk.serving.check.records import CheckResult, Corrected, Resolved

__all__ = ["CheckResult", "Corrected", "Resolved", "check_command", "model_source"]
