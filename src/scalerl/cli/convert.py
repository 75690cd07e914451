"""`scalerl convert`: another trainer's log to a run record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from scalerl.cli.fit import AS_JSON, SCALE
from scalerl.cli.log_options import DEVICES, GROUP, PARAMS, RESTART, LogOptions, X, Y


def convert(
    src: Annotated[str, typer.Argument(help="Log, table, event file, folder, or wandb:entity/project/run.")],
    dst: Annotated[Path, typer.Argument(help="Where the record goes (a new folder).")],
    x: X = None,
    y: Y = None,
    group: GROUP = None,
    scale: SCALE = None,
    devices: DEVICES = None,
    params: PARAMS = None,
    restart: RESTART = None,
    as_json: AS_JSON = False,
) -> None:
    """Read a run of any supported format and write it as a run record; several become a folder of records.

    Example: scalerl convert trainer_state.json runs/theirs --devices 8:H100
    """
    from scalerl.cli.ask import load_all_asking
    from scalerl.record.convert import write_records

    log = LogOptions(x, y, group, scale, devices, params, restart)
    runs = load_all_asking(src, **log.said())
    places = write_records(runs, dst)
    if as_json:
        import orjson

        rows = [
            {"run": name, "record": str(place), "source": run.provenance and run.provenance.model_dump()}
            for (name, run), place in zip(runs.items(), places, strict=True)
        ]
        typer.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
        return
    for run, place in zip(runs.values(), places, strict=True):
        if run.provenance is not None:
            typer.echo(run.provenance.describe())
        typer.echo(f"-> {place}: {len(run.evaluations)} evaluations")
