"""`scalerl bench verify`: completions judged a second, and what hanging verifiers cost."""

from __future__ import annotations

from typing import Annotated

import typer


def verify(
    workers: Annotated[int, typer.Option(min=1, help="Worker processes, and programs run at a time.")] = 2,
    answers: Annotated[int, typer.Option(min=1, help="Simple answers to judge.")] = 20_000,
    programs: Annotated[int, typer.Option(min=0, help="Programs to run in the sandbox.")] = 100,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")] = False,
) -> None:
    """Measure the verifiers: simple answers, the table of answer pairs, programs, a pool with hanging jobs.

    Example: scalerl bench verify --workers 2
    """
    from dataclasses import asdict

    import orjson
    from rich.console import Console
    from rich.table import Table

    from scalerl.task import benchmark

    rates = [benchmark.simple_answers(answers), benchmark.table_of_pairs(workers)]
    if programs and (ran := benchmark.programs(programs, workers)) is not None:
        rates.append(ran)
    pool = benchmark.hanging_pool(workers)
    if as_json:
        found = {
            "workers": workers,
            "rates": [
                asdict(rate) | {"per_second": rate.per_second, "per_cpu_second": rate.per_cpu_second}
                for rate in rates
            ],
            "hanging_pool": asdict(pool) | {"over_ideal": pool.over_ideal},
        }
        typer.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
        return
    table = Table(box=None, pad_edge=False)
    for name in ("", "judged", "as wanted", "seconds", "CPU s", "a second", "a CPU second"):
        table.add_column(name, justify="right" if name else "left")
    for rate in rates:
        seconds = (f"{rate.seconds:.2f}", f"{rate.cpu_seconds:.2f}")
        speeds = (f"{rate.per_second:,.0f}", f"{rate.per_cpu_second:,.0f}")
        table.add_row(rate.name, f"{rate.judged:,}", f"{rate.as_wanted:,}", *seconds, *speeds)
    console = Console()
    console.print(table)
    console.print(
        f"{pool.jobs} jobs, {pool.hanging} of them hanging: {pool.seconds:.1f} s, "
        f"{pool.over_ideal:.2f} times the ideal {pool.ideal_seconds:.1f} s ({pool.killed} killed)"
    )
