"""`scalerl resume`: go on with a run that was stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def resume(
    run: Annotated[Path, typer.Argument(help="The run's record.")],
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, no progress.")] = False,
) -> None:
    """Go on with a run from its last checkpoint, bit for bit as if it had never stopped.

    Example: scalerl resume runs/a
    """
    from scalerl.cli.train import run_with_progress
    from scalerl.loop.run import config_of_record

    run_with_progress(config_of_record(run), run, json)
