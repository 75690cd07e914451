"""`scalerl study`: several runs, their forecasts, a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from scalerl.study.plan import StudyPlan
    from scalerl.study.result import RunResult

QUICKSTART = "quickstart"


def study(
    plan: Annotated[
        str, typer.Argument(help="`quickstart`, or a study file (YAML, TOML, JSON).")
    ] = QUICKSTART,
    out: Annotated[
        Path | None, typer.Option("--out", help="Folder of the study; default: study/<name>.")
    ] = None,
    seed: Annotated[
        list[int] | None, typer.Option(help="Seed of the quickstart's runs; several: --seed 1 --seed 2.")
    ] = None,
    recipe: Annotated[
        list[str] | None, typer.Option(help="Recipe of the quickstart's runs (may be repeated).")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=8, help="Trainer steps of the quickstart's runs.")] = None,
    parallel: Annotated[
        int | None, typer.Option(min=1, help="Runs at a time; default: one a free core.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the results as JSON, no progress.")] = False,
) -> None:
    """Train every run of a study, forecast the second half of each from its first, and check the forecast.

    Example: scalerl study quickstart

    A stopped study goes on where it was when it's started again. Writes figures and report.html.
    """
    from rich.console import Console

    from scalerl.study.report import write_report
    from scalerl.study.result import study_results

    chosen = _plan(plan, seed or [1], recipe, steps)
    folder = out or Path("study") / chosen.name
    console = Console(stderr=True)
    _run(chosen, folder, parallel, console, json)
    results = study_results(chosen, folder)
    report = write_report(chosen.name, results, folder, chosen.fit_fraction)
    if json:
        import orjson

        typer.echo(orjson.dumps({"report": str(report), "runs": [r.to_dict() for r in results]}).decode())
        return
    show(results)
    typer.echo(f"figures: {folder / 'figures'}   report: {report}")


def _plan(name: str, seeds: list[int], recipes: list[str] | None, steps: int | None) -> StudyPlan:
    from scalerl.errors import UserError
    from scalerl.study.plan_file import load_plan
    from scalerl.study.quickstart import RECIPES, STEPS, quickstart_study

    if name == QUICKSTART:
        return quickstart_study(recipes or RECIPES, seeds, steps or STEPS)
    if recipes or steps or seeds != [1]:
        raise UserError(f"--recipe, --seed, --steps: the study file {name} says these; leave them out")
    return load_plan(Path(name))


def _run(plan: StudyPlan, folder: Path, parallel: int | None, console: Console, quiet: bool) -> None:
    from scalerl.cli.progress import Display, RunProgress
    from scalerl.errors import NoGoodAnswer
    from scalerl.study.runner import Message, RunFailed, free_cores, run_study

    rows = {config.name: RunProgress(config.name, config.steps) for config in plan.runs}
    begun = [name for name in rows if (folder / "runs" / name / "run.json").is_file()]
    with Display(list(rows.values()), console, quiet) as display:
        if begun and not quiet:
            display.say(f"{folder}: going on with a study that was begun ({len(begun)} of {len(rows)} runs)")

        def on_message(message: Message) -> None:
            row = rows[message.run]
            if message.kind == "event":
                display.say(f"{message.run}: {message.data}")
                return
            show_message(row, message.kind, message.data)
            display.refresh()

        try:
            run_study(plan.runs, folder, parallel or free_cores(), on_message)
        except RunFailed as failure:
            raise NoGoodAnswer(f"{failure} (start the study again to go on)") from None


def show(results: Sequence[RunResult]) -> None:
    """Print the table of forecasts, and a sentence a run."""
    from rich.console import Console
    from rich.table import Table

    from scalerl.study.result import as_text

    table = Table(
        title="forecast from the first part of the compute, against its last quarter",
        box=None,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("run", no_wrap=True)
    for title in ("A", "90%", "B", "C_mid", "forecast", "observed", "error"):
        table.add_column(title, justify="right", no_wrap=True)
    for result in results:
        fit, ceiling = result.fit, result.ceiling()
        table.add_row(
            result.name,
            as_text(fit.A, ".3f"),
            f"{as_text(ceiling.lower, '.2f')}-{as_text(ceiling.upper, '.2f')}",
            as_text(fit.B, ".2f"),
            as_text(fit.C_mid / result.series.compute[-1], ".0%"),
            as_text(result.forecast, ".3f"),
            f"{result.observed:.3f}",
            as_text(result.error, "+.3f"),
        )
    console = Console()
    console.print(table)
    console.print("90%: interval of the ceiling A; C_mid: as a share of the compute", style="dim")
    for result in results:
        console.print(f"{result.name}: {result.fit.why}", highlight=False)


def show_message(row: object, kind: str, data: object) -> None:
    """Put a run's news into its row of the display."""
    from scalerl.cli.progress import RunProgress

    assert isinstance(row, RunProgress)
    if kind == "step":
        assert isinstance(data, dict)
        row.begin(data["step"] - 1)
        row.step, row.train_pass_rate, row.compute = data["step"], data["pass_rate"], data["compute"]
    elif kind == "evaluation":
        assert isinstance(data, dict)
        row.pass_rate, row.step = data["pass_rate"], max(row.step, data["step"])
    elif kind == "done":
        row.state, row.step = "done", row.steps
