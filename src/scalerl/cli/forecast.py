"""`scalerl forecast`: where a run will be, when it gets there, and whether to go on."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from scalerl.cli.fit import AS_JSON, AXIS, FROM, LEVEL, NOISE, PRIOR, R0, RUN, SCALE, SET, SKIP, UNTIL
from scalerl.cli.log_options import DEVICES, GROUP, PARAMS, RESTART, LogOptions, X, Y, say_sources, source_of


def forecast(
    run: RUN = None,
    example: Annotated[str | None, typer.Option("--example", help="A record that ships here.")] = None,
    at: Annotated[list[float] | None, typer.Option("--at", help="Compute to predict at; repeatable.")] = None,
    reach: Annotated[
        list[float] | None, typer.Option("--reach", help="Pass rate to reach; repeatable.")
    ] = None,
    stop_when: Annotated[
        float | None, typer.Option("--stop-when", help="Advise to stop when the next doubling gains less.")
    ] = None,
    low: FROM = None,
    until: UNTIL = None,
    skip: SKIP = None,
    r0: R0 = "auto",
    prior: PRIOR = "auto",
    noise: NOISE = "ar1",
    set_name: SET = None,
    axis: AXIS = None,
    scale: SCALE = None,
    level: LEVEL = 0.9,
    require_identified: Annotated[
        bool, typer.Option("--require-identified", help="Exit 1 unless the ceiling is identified.")
    ] = False,
    x: X = None,
    y: Y = None,
    group: GROUP = None,
    devices: DEVICES = None,
    params: PARAMS = None,
    restart: RESTART = None,
    as_json: AS_JSON = False,
) -> None:
    """Forecast a run, with intervals; without --at, --reach or --stop-when: at 2, 4 and 10 times the last
    compute.

    Example: scalerl forecast runs/a --at 100000 --reach 0.60 --stop-when 0.01
    """
    from scalerl.cli.curve_tables import print_forecast, print_json
    from scalerl.cli.fit import skip_of, start_of
    from scalerl.cli.runs import load_run
    from scalerl.curve.fit import fit as fit_curve
    from scalerl.curve.forecast import forecast as make_forecast
    from scalerl.errors import NoGoodAnswer

    log = LogOptions(x, y, group, scale, devices, params, restart)
    loaded = load_run(run, example, log)
    if not as_json:
        say_sources([loaded])
    series = loaded.curve(set=set_name, axis=axis)
    options: dict[str, Any] = {"prior": prior, "noise": noise}
    fitted = fit_curve(series, r0=start_of(r0), window=(low, until), skip=skip_of(skip), **options)
    if not (at or reach or stop_when is not None):
        at = [k * float(series.compute[-1]) for k in (2, 4, 10)]
    if not fitted.fitted:
        raise NoGoodAnswer(f"{series.name}: {fitted.why}")
    result = make_forecast(fitted, at, reach, stop_when, level)
    if as_json:
        print_json(result.to_dict() | source_of(loaded))
    else:
        print_forecast(result, level)
    if require_identified and fitted.identified != "yes":
        raise NoGoodAnswer(f"{series.name}: {fitted.why}")
