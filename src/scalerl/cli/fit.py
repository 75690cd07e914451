"""`scalerl fit`: the ceiling, efficiency and midpoint of a run, with intervals and a verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from scalerl.cli.log_options import DEVICES, GROUP, PARAMS, RESTART, LogOptions, X, Y, say_sources, source_of

RUN = Annotated[str | None, typer.Argument(help="Run record, or a log that scalerl.load reads.")]
FROM = Annotated[float | None, typer.Option("--from", help="Window's start, in units of the compute axis.")]
UNTIL = Annotated[float | None, typer.Option("--until", help="Window's end, in units of the compute axis.")]
SKIP = Annotated[str | None, typer.Option("--skip", help="'auto' finds the early phase's end; or a compute.")]
R0 = Annotated[str, typer.Option("--r0", help="Pass rate before RL: auto, measured, free or a number.")]
PRIOR = Annotated[str, typer.Option("--prior", help="Weak prior on B and C_mid: auto, weak or none.")]
NOISE = Annotated[str, typer.Option("--noise", help="ar1 (correlated along the run) or white.")]
SET = Annotated[str | None, typer.Option("--set", help="Evaluation set (default: the held-out one).")]
AXIS = Annotated[str | None, typer.Option("--axis", help="Compute axis (default: the record's best).")]
SCALE = Annotated[
    str | None, typer.Option("--scale", help="Pass rate's unit: unit, percent, pm1 or LOW:HIGH.")
]
LEVEL = Annotated[float, typer.Option("--level", help="Level of the intervals.")]
AS_JSON = Annotated[bool, typer.Option("--json", help="Print JSON with stable names.")]


def fit(
    run: RUN = None,
    example: Annotated[str | None, typer.Option("--example", help="Fit a record that ships here.")] = None,
    low: FROM = None,
    until: UNTIL = None,
    skip: SKIP = None,
    r0: R0 = "auto",
    method: Annotated[
        str, typer.Option("--method", help="varpro, or grid (the source's procedure, GPU-hours).")
    ] = "varpro",
    prior: PRIOR = "auto",
    noise: NOISE = "ar1",
    set_name: SET = None,
    axis: AXIS = None,
    scale: SCALE = None,
    level: LEVEL = 0.9,
    when: Annotated[bool, typer.Option("--when", help="Simulate when A should become identified.")] = False,
    require_identified: Annotated[
        bool, typer.Option("--require-identified", help="Exit 1 unless the ceiling is identified.")
    ] = False,
    plot: Annotated[Path | None, typer.Option("--plot", help="Write the figure: .svg, .pdf or .png.")] = None,
    x: X = None,
    y: Y = None,
    group: GROUP = None,
    devices: DEVICES = None,
    params: PARAMS = None,
    restart: RESTART = None,
    as_json: AS_JSON = False,
) -> None:
    """Fit the law to one run: R(C) = R0 + (A - R0) / (1 + (C_mid / C)^B).

    Example: scalerl fit runs/a --from 1500 --until 8000 --plot fit.svg
    """
    from scalerl.cli.curve_tables import print_fit, print_json
    from scalerl.cli.runs import load_run
    from scalerl.curve.fit import fit as fit_curve
    from scalerl.errors import NoGoodAnswer

    log = LogOptions(x, y, group, scale, devices, params, restart)
    loaded = load_run(run, example, log)
    if not as_json:
        say_sources([loaded])
    series = loaded.curve(set=set_name, axis=axis)
    options: dict[str, Any] = {"method": method, "prior": prior, "noise": noise}
    fitted = fit_curve(series, r0=start_of(r0), window=(low, until), skip=skip_of(skip), **options)
    extra: dict[str, Any] = source_of(loaded)
    if when:
        from scalerl.curve.identify import needed_compute

        extra["needed_compute"] = needed_compute(fitted)
    if plot is not None:
        from scalerl.curve.plot import plot_run, save

        save(plot_run(series, fitted, level=level), plot)
    if as_json:
        print_json(fitted.to_dict(level) | extra)
    else:
        print_fit(fitted, level, extra)
    if not fitted.fitted or (require_identified and fitted.identified != "yes"):
        raise NoGoodAnswer(f"{series.name}: {fitted.why}")


def start_of(text: str) -> Any:
    """--r0: a word, or a number."""
    return _number_or(text, ("auto", "measured", "free"), "--r0")


def skip_of(text: str | None) -> Any:
    """--skip: 'auto', a number, or nothing."""
    return None if text is None else _number_or(text, ("auto",), "--skip")


def _number_or(text: str, words: tuple[str, ...], flag: str) -> Any:
    from scalerl.errors import UserError

    if text in words:
        return text
    try:
        return float(text)
    except ValueError:
        raise UserError(f"{flag} {text!r}: give a number or one of {', '.join(words)}") from None
