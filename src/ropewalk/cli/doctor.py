"""``ropewalk doctor``: what this machine can serve."""

from __future__ import annotations

import click

from ropewalk import core
from ropewalk.cli import output
from ropewalk.cli.command import Command, json_option
from ropewalk.errors import EngineMissingError


@click.command(
    "doctor",
    cls=Command,
    examples="""
        ropewalk doctor
        ropewalk doctor --json | jq '.devices[0].free_bytes'
    """,
)
@json_option
def command(as_json: bool) -> int:
    """Say which engines are found, with their versions, how to get the others, and what memory there is.

    Exit status 4 where there is no engine at all.
    """
    with output.waiting("looking for engines and devices"):
        doctor = core.doctor()
    if as_json:
        output.document(doctor)
    else:
        from ropewalk.report.doctor import doctor_page

        output.page(doctor_page(doctor))
    return 0 if doctor.engines else EngineMissingError.exit_status
