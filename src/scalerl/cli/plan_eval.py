"""`scalerl plan-eval`: how many prompts x samples, how often and until when, for a wanted margin of A."""

from __future__ import annotations

from typing import Annotated

import typer


def plan_eval(
    ceiling: Annotated[float, typer.Option("--A", help="Guessed ceiling.")] = 0.6,
    exponent: Annotated[float, typer.Option("--B", help="Guessed efficiency.")] = 1.9,
    c_mid: Annotated[float, typer.Option("--C-mid", help="Guessed compute at half of the gain.")] = 2500.0,
    start_rate: Annotated[float, typer.Option("--r0", help="Pass rate before RL.")] = 0.3,
    margin: Annotated[float, typer.Option("--margin", help="Wanted half-width of A at 90%.")] = 0.02,
    until: Annotated[float | None, typer.Option("--until", help="Budget (default: tries several).")] = None,
    training_sd: Annotated[
        float, typer.Option("--training-sd", help="Noise beyond the evaluation's.")
    ] = 0.003,
    correlation: Annotated[float, typer.Option("--correlation", help="Of the noise along the run.")] = 0.3,
    pass_spread: Annotated[
        float, typer.Option("--pass-spread", help="Share of p(1-p) between prompts; 0: binomial bound.")
    ] = 0.5,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Plans to show.")] = 6,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with stable names.")] = False,
) -> None:
    """Plan the held-out evaluations of a run whose curve you guess.

    Example: scalerl plan-eval --A 0.61 --B 1.9 --C-mid 2500 --r0 0.3 --margin 0.02 --until 16000
    """
    from scalerl.cli.curve_tables import print_json, print_plans
    from scalerl.curve.plan import plan_eval as make_plans
    from scalerl.curve.sigmoid import Law
    from scalerl.errors import NoGoodAnswer

    law = Law(ceiling, exponent, c_mid, start_rate)
    plans = make_plans(
        law, margin, until=until, training_sd=training_sd, correlation=correlation, pass_spread=pass_spread
    )
    if as_json:
        print_json({"plans": [plan.to_dict() for plan in plans[:rows]]})
    elif plans:
        print_plans(plans[:rows], margin)
    if not plans:
        raise NoGoodAnswer(
            f"no plan reaches +-{margin:g}: run longer than that budget, or accept a wider margin"
        )
