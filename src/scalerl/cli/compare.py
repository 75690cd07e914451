"""`scalerl compare`: which recipe has the higher ceiling, and at a common ceiling, which is the more
efficient."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from scalerl.cli.fit import AS_JSON, AXIS, FROM, NOISE, PRIOR, R0, SCALE, SET, UNTIL
from scalerl.cli.log_options import DEVICES, GROUP, PARAMS, RESTART, LogOptions, X, Y, say_sources, source_of


def compare(
    recipes: Annotated[
        list[str],
        typer.Argument(help="NAME=RUN[,RUN...], a run or a folder of seeds; or one folder of runs."),
    ],
    margin: Annotated[float | None, typer.Option("--margin", help="Margin of A (default 0.02).")] = None,
    budget: Annotated[list[float] | None, typer.Option("--budget", help="Compute; repeatable.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Compare over different held-out sets, axes or devices.")
    ] = False,
    low: FROM = None,
    until: UNTIL = None,
    r0: R0 = "auto",
    prior: PRIOR = "auto",
    noise: NOISE = "ar1",
    set_name: SET = None,
    axis: AXIS = None,
    scale: SCALE = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Write the figure: .svg, .pdf or .png.")] = None,
    x: X = None,
    y: Y = None,
    group: GROUP = None,
    devices: DEVICES = None,
    params: PARAMS = None,
    restart: RESTART = None,
    as_json: AS_JSON = False,
) -> None:
    """Compare recipes, several seeds each: ceiling first, then efficiency, then who is best at which budget.

    Example: scalerl compare scalerl=runs/a1,runs/a2 grpo=runs/b1,runs/b2 --budget 100000
    """
    from scalerl.cli.curve_tables import print_comparison, print_json
    from scalerl.cli.fit import start_of
    from scalerl.cli.runs import load_recipes
    from scalerl.curve.compare import compare as compare_curves

    log = LogOptions(x, y, group, scale, devices, params, restart)
    runs = load_recipes(recipes, log)
    everyone = [run for members in runs.values() for run in members]
    if not as_json:
        say_sources(everyone)
    groups = {name: [run.curve(set_name, axis) for run in members] for name, members in runs.items()}
    options: dict[str, Any] = {"r0": start_of(r0), "prior": prior, "noise": noise, "window": (low, until)}
    result = compare_curves(
        groups, "auto" if margin is None else margin, budgets=budget or None, force=force, **options
    )
    if plot is not None:
        from scalerl.curve.plot import save
        from scalerl.curve.plot_recipes import plot_recipes

        save(plot_recipes({r.name: r.fits for r in result.recipes}), plot)
    if as_json:
        out = result.to_dict()
        for recipe in out["recipes"]:
            recipe["seeds"] = [
                seed | source_of(run) for seed, run in zip(recipe["seeds"], runs[recipe["name"]], strict=True)
            ]
        print_json(out)
    else:
        print_comparison(result)
