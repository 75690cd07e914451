"""`scalerl bench clock`: what the simulated clock costs."""

from __future__ import annotations

from typing import Annotated, Any

import typer


def clock(
    profile: Annotated[str, typer.Option(help="Name or YAML file of the simulated cluster.")] = "source-80",
    recipe: Annotated[str, typer.Option(help="Recipe, at the quickstart's sizes.")] = "scalerl",
    tokens_per_token: Annotated[int, typer.Option(min=1, help="Simulated tokens for one real token.")] = 500,
    steps: Annotated[int, typer.Option(min=1, help="Measured steps of each loop in a round.")] = 16,
    warm_up_steps: Annotated[int, typer.Option(min=1, help="Steps before them.")] = 16,
    rounds: Annotated[int, typer.Option(min=1, help="Both loops, by turns.")] = 3,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")] = False,
) -> None:
    """Measure the simulated clock's own work, and a run's slowdown against the plain loop at equal steps.

    Quickstart runs without evaluations; the plain loop and the loop under the clock take turns. The clock's
    own work is all CPU time of its run outside the engine, the trainer and the verifier.

    Example: scalerl bench clock --rounds 5
    """
    import tempfile
    from pathlib import Path

    from scalerl.loop.clock_benchmark import costs_by_turns
    from scalerl.loop.config import CheckpointPlan, EvaluationPlan, SimulatedClock
    from scalerl.loop.profile import load_profile
    from scalerl.study.quickstart import quickstart_config, quickstart_recipe

    total = warm_up_steps + steps
    config = quickstart_config(quickstart_recipe(recipe), name="bench", seed=seed, steps=total)
    config = config.model_copy(
        update={
            "evaluation": EvaluationPlan(every_steps=2 * total),
            "checkpoint": CheckpointPlan(every_steps=2 * total),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        plain, timed = costs_by_turns(
            config,
            SimulatedClock(profile=load_profile(profile), tokens_per_token=tokens_per_token),
            Path(folder),
            measured_steps=steps,
            rounds=rounds,
        )
    result = _summary(
        [cost.cpu_seconds for cost in plain],
        [cost.cpu_seconds for cost in timed],
        [cost.clock_cpu_seconds for cost in timed],
    )
    if json:
        import orjson

        typer.echo(orjson.dumps({"profile": profile, "recipe": recipe, "steps": steps, **result}).decode())
        return
    typer.echo(
        f"{recipe}, {steps} steps after {warm_up_steps}, {rounds} rounds by turns, CPU seconds (medians): "
        f"plain loop {result['plain_cpu_seconds']:.2f}, under {profile} {result['timed_cpu_seconds']:.2f}"
    )
    typer.echo(f"slowdown {result['slowdown']:.2f}x; the clock's own work {result['clock_share']:.1%} of it")


def _summary(plain: list[float], timed: list[float], own: list[float]) -> dict[str, Any]:
    from statistics import median

    return {
        "plain_cpu_seconds": median(plain),
        "timed_cpu_seconds": median(timed),
        "slowdown": median(a / b for a, b in zip(timed, plain, strict=True)),
        "clock_share": median(a / b for a, b in zip(own, timed, strict=True)),
    }
