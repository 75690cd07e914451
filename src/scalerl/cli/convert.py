"""`scalerl convert`: another trainer's log to a run record."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def convert(
    src: Annotated[str, typer.Argument(help="Log, table, event file, folder, or wandb:entity/project/run.")],
    dst: Annotated[Path, typer.Argument(help="Where the record goes (a new folder).")],
    x: Annotated[str | None, typer.Option("--x", help="Field for compute ('index' counts the rows).")] = None,
    y: Annotated[str | None, typer.Option("--y", help="Field for the pass rate.")] = None,
    group: Annotated[
        str | None, typer.Option("--group", help="Fields that tell runs apart, by commas.")
    ] = None,
    scale: Annotated[str | None, typer.Option("--scale", help="unit, percent, pm1 or LOW:HIGH.")] = None,
    devices: Annotated[str | None, typer.Option("--devices", help="8, 64+16 or 64+16:H100.")] = None,
    params: Annotated[
        float | None, typer.Option("--params", help="Model parameters, for FLOPs: 8e9.")
    ] = None,
    restart: Annotated[str | None, typer.Option("--restart", help="A start over: last or append.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")] = False,
) -> None:
    """Read a run of any supported format and write it as a run record; several become a folder of records.

    Example: scalerl convert trainer_state.json runs/theirs --devices 8:H100
    """
    from scalerl.cli.ask import load_all_asking
    from scalerl.record.convert import write_records

    runs = load_all_asking(
        src, x=x, y=y, group=group, scale=scale, devices=devices, params=params, restart=restart
    )
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
