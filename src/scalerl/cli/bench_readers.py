"""`scalerl bench readers`: megabytes per CPU second and peak memory of the readers of foreign logs."""

from __future__ import annotations

from typing import Annotated

import typer


def readers(
    megabytes: Annotated[float, typer.Option(min=0.1, help="Size of each synthetic log.")] = 50.0,
    only: Annotated[str | None, typer.Option(help="One format, as the table names it.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")] = False,
) -> None:
    """Write synthetic logs, read each in a process of its own: speed and peak memory.

    Example: scalerl bench readers --megabytes 200
    """
    import tempfile
    from dataclasses import asdict
    from pathlib import Path

    import orjson
    from rich.console import Console
    from rich.table import Table

    from scalerl.errors import UserError
    from scalerl.record.benchmark import FORMATS, measure

    if only is not None and only not in FORMATS:
        raise UserError(f"--only {only}: say one of {', '.join(FORMATS)}")
    with tempfile.TemporaryDirectory() as folder:
        found = [measure(Path(folder), name, megabytes) for name in ([only] if only else FORMATS)]
    if as_json:
        rows = [asdict(one) | {"megabytes_per_cpu_second": one.megabytes_per_cpu_second} for one in found]
        typer.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
        return
    table = Table(title="Reading other trainers' logs")
    for name in ("format", "MB", "points", "CPU s", "MB per CPU s", "peak MB"):
        table.add_column(name, justify="left" if name == "format" else "right")
    for one in found:
        numbers = (one.megabytes, one.cpu_seconds, one.megabytes_per_cpu_second, one.peak_megabytes)
        size, cpu, speed, peak = (f"{number:.1f}" for number in numbers)
        table.add_row(one.format, size, f"{one.points:,}", cpu, speed, peak)
    Console().print(table)
