"""`scalerl backtest`: forecast the rest of finished runs from their first part, beside three rivals."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from scalerl.cli.fit import AS_JSON, AXIS, LEVEL, NOISE, PRIOR, R0, SCALE, SET
from scalerl.cli.log_options import DEVICES, GROUP, PARAMS, RESTART, LogOptions, X, Y, say_sources, source_of


def backtest(
    run: Annotated[str, typer.Argument(help="A run, or a folder of runs.")],
    fraction: Annotated[list[float] | None, typer.Option("--fraction", help="Cut; repeatable.")] = None,
    low: Annotated[
        float | None, typer.Option("--from", help="Compute before which nothing is fitted.")
    ] = None,
    r0: R0 = "auto",
    prior: PRIOR = "auto",
    noise: NOISE = "ar1",
    set_name: SET = None,
    axis: AXIS = None,
    scale: SCALE = None,
    level: LEVEL = 0.9,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Figure of the last cut of the first run.")
    ] = None,
    x: X = None,
    y: Y = None,
    group: GROUP = None,
    devices: DEVICES = None,
    params: PARAMS = None,
    restart: RESTART = None,
    as_json: AS_JSON = False,
) -> None:
    """Fit up to each cut (25%, 50%, 75% of the compute), forecast the rest, score it.

    Example: scalerl backtest runs/ --fraction 0.5
    """
    from scalerl.cli.curve_tables import print_backtests, print_json
    from scalerl.cli.fit import start_of
    from scalerl.cli.runs import load_runs
    from scalerl.curve.backtest import CUTS
    from scalerl.curve.backtest import backtest as run_backtest
    from scalerl.errors import NoGoodAnswer

    options: dict[str, Any] = {"r0": start_of(r0), "prior": prior, "noise": noise}
    log = LogOptions(x, y, group, scale, devices, params, restart)
    runs = load_runs(run, log)
    if not as_json:
        say_sources(runs)
    judged = [
        (one, run_backtest(one.curve(set_name, axis), fraction or CUTS, start=low, level=level, **options))
        for one in runs
    ]
    results = [result for _, found in judged for result in found]
    if plot is not None and results:
        from scalerl.curve.plot import plot_run, save

        last = [result for result in results if result.name == results[0].name][-1]
        save(plot_run(last.fit.series, last.fit, level=level), plot)
    if as_json:
        print_json([result.to_dict() | source_of(one) for one, found in judged for result in found])
    else:
        print_backtests(results)
    if not any(result.scores for result in results):
        raise NoGoodAnswer(f"{run}: no cut left enough evaluations on both sides")
