"""`scalerl report`: figures and report.html of a study that has run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    folder: Annotated[Path, typer.Argument(help="The study's folder, or a folder of run records.")],
    fraction: Annotated[float, typer.Option(min=0.05, max=0.95, help="Share of the compute to fit.")] = 0.5,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON.")] = False,
) -> None:
    """Write figures and report.html for the runs of a study, without running anything.

    Example: scalerl report study/quickstart
    """
    from scalerl.cli.study import show
    from scalerl.errors import UserError
    from scalerl.study.report import write_report
    from scalerl.study.result import run_result

    runs = folder / "runs" if (folder / "runs").is_dir() else folder
    records = sorted(path.parent for path in runs.glob("*/run.json")) if runs.is_dir() else []
    if not records:
        raise UserError(f"{folder}: no run records (folders with a run.json) in it")
    results = [run_result(path, fraction) for path in records]
    path = write_report(folder.name or "study", results, folder, fraction)
    if json:
        import orjson

        typer.echo(orjson.dumps({"report": str(path), "runs": [r.to_dict() for r in results]}).decode())
        return
    show(results)
    typer.echo(f"report: {path}")
