"""`scalerl simulate`: the simulated clock alone, to choose a split and a schedule beforehand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from scalerl.loop.simulate import Claim, Outcome, Scenario

_KS = (1, 2, 4, 8, 16)
_COLUMNS = (
    ("s a step", "seconds_per_step", ".1f"),
    ("steps a dev-h", "steps_per_device_hour", ".3f"),
    ("idle", "idle_share", ".0%"),
    ("gen idle", "generator_idle_share", ".0%"),
    ("train idle", "trainer_idle_share", ".0%"),
    ("slots used", "slot_share", ".0%"),
    ("stale mean", "staleness_mean", ".1f"),
    ("max", "staleness_max", "d"),
)


def simulate(
    profile: Annotated[str, typer.Option(help="A shipped profile or a YAML file of figures.")] = "source-80",
    k: Annotated[int, typer.Option(min=1, help="Off-policy bound of the comparison.")] = 8,
    prompts_per_step: Annotated[int, typer.Option(min=1)] = 48,
    generations_per_prompt: Annotated[int, typer.Option(min=1)] = 16,
    prompt_tokens: Annotated[int, typer.Option(min=1)] = 256,
    mean_length: Annotated[float, typer.Option(min=1, help="Mean completion length before the cap.")] = 8000,
    length_cv: Annotated[float, typer.Option(min=0, help="Spread of lengths: sd / mean.")] = 0.7,
    length_cap: Annotated[int, typer.Option(min=1)] = 14000,
    steps: Annotated[int, typer.Option(min=1, help="Trainer steps measured in each run.")] = 64,
    seed: int = 0,
    sweep: Annotated[bool, typer.Option(help="Sweep k and the split of devices.")] = True,
    sensitivity: Annotated[bool, typer.Option(help="Halve and double each figure.")] = True,
    figure: Annotated[Path | None, typer.Option(help="Write the timeline here (png, pdf, svg).")] = None,
    show_profile: Annotated[bool, typer.Option(help="Print the profile as YAML and stop.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Machine-readable output.")] = False,
) -> None:
    """Simulate schedules on a cluster, without learning.

    Lengths are synthetic (log-normal, cut off). Compares PipelineRL-k with PPO-off-policy-k, sweeps k and the
    split between generators and trainers, and says how far the verdict leans on each figure of the profile.

    Example: scalerl simulate --profile node-8xh200 --k 4 --figure timeline.png
    """
    from rich.console import Console

    from scalerl.loop.lengths import LogNormalLengths
    from scalerl.loop.profile import load_profile
    from scalerl.loop.simulate import Scenario
    from scalerl.recipe.axes import Pipeline

    loaded = load_profile(profile)
    if show_profile:
        import yaml

        typer.echo(yaml.safe_dump(loaded.model_dump(), sort_keys=False), nl=False)
        return
    scenario = Scenario(
        profile=loaded,
        schedule=Pipeline(k=k),
        lengths=LogNormalLengths(mean_length, length_cv, length_cap),
        prompts_per_step=prompts_per_step,
        generations_per_prompt=generations_per_prompt,
        prompt_tokens=prompt_tokens,
        steps=steps,
        seed=seed,
    )
    found = _run(scenario, figure, sweep, sensitivity, Console(stderr=True))
    if as_json:
        import orjson

        typer.echo(orjson.dumps(_plain(scenario, found), option=orjson.OPT_INDENT_2).decode())
    else:
        _show(Console(), scenario, found, figure)


def _run(
    scenario: Scenario, figure: Path | None, sweep: bool, sensitivity: bool, console: Console
) -> dict[str, Any]:
    """Everything asked for: claim, sweeps, sensitivity."""
    from dataclasses import replace

    from rich.progress import Progress

    from scalerl.loop.profile import FIGURES
    from scalerl.loop.simulate import check_claim, scaled, splits
    from scalerl.loop.simulate import simulate as run
    from scalerl.recipe.axes import Pipeline, PpoOffPolicy

    k = scenario.schedule.k
    schedules = (Pipeline(k=k), PpoOffPolicy(k=k))
    k_runs = [replace(scenario, schedule=s).with_k(each) for s in schedules for each in _KS] if sweep else []
    split_runs = [each for s in schedules for each in splits(replace(scenario, schedule=s))] if sweep else []
    short = replace(scenario, steps=max(k, scenario.steps // 4))
    cases = [(name, factor) for name in FIGURES for factor in (0.5, 2.0)] if sensitivity else []
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("simulating", total=2 + len(k_runs) + len(split_runs) + 2 * len(cases))

        def done(result: Any, count: int = 1) -> Any:
            progress.advance(task, count)
            return result

        return {
            "claim": done(_compare(scenario, figure), 2),
            "k_sweep": [done(run(each)) for each in k_runs],
            "split_sweep": [done(run(each)) for each in split_runs],
            "sensitivity": [(f, x, done(check_claim(scaled(short, f, x), k), 2)) for f, x in cases],
        }


def _compare(scenario: Scenario, figure: Path | None) -> Claim:
    """Both schedules on the profile; their timelines into the figure, if one is asked for."""
    from dataclasses import replace

    from scalerl.loop.simulate import Claim
    from scalerl.loop.simulate import simulate as run
    from scalerl.loop.timeline import Timeline, draw_timelines
    from scalerl.recipe.axes import PpoOffPolicy

    lines = (Timeline(), Timeline())
    ppo = replace(scenario, schedule=PpoOffPolicy(k=scenario.schedule.k))
    claim = Claim(run(scenario, lines[0]), run(ppo, lines[1]))
    if figure is not None:
        draw_timelines(
            [(claim.ppo, lines[1]), (claim.pipeline, lines[0])],
            slots=scenario.profile.slots_per_generator,
            seconds=2.2 * scenario.schedule.k * claim.ppo.seconds_per_step,
            path=figure,
            title=f"{scenario.profile.name}; lengths {scenario.lengths.label}",
        )
    return claim


def _plain(scenario: Scenario, found: dict[str, Any]) -> dict[str, Any]:
    claim: Claim = found["claim"]
    return {
        "profile": scenario.profile.model_dump(),
        "k": scenario.schedule.k,
        "prompts_per_step": scenario.prompts_per_step,
        "generations_per_prompt": scenario.generations_per_prompt,
        "prompt_tokens": scenario.prompt_tokens,
        "lengths": scenario.lengths.label,
        "seed": scenario.seed,
        **_plain_claim(claim),
        "pipeline": claim.pipeline.as_dict(),
        "ppo_off_policy": claim.ppo.as_dict(),
        "k_sweep": [outcome.as_dict() for outcome in found["k_sweep"]],
        "split_sweep": [outcome.as_dict() for outcome in found["split_sweep"]],
        "sensitivity": [
            {"figure": figure, "factor": factor, **_plain_claim(each)}
            for figure, factor, each in found["sensitivity"]
        ],
    }


def _plain_claim(claim: Claim) -> dict[str, Any]:
    return {
        "ppo_idles_more": claim.ppo_idles_more,
        "pipeline_steps_more": claim.pipeline_steps_more,
        "speedup": claim.speedup,
        "pipeline_idle_share": claim.pipeline.idle_share,
        "ppo_idle_share": claim.ppo.idle_share,
    }


def _show(console: Console, scenario: Scenario, found: dict[str, Any], figure: Path | None) -> None:
    claim: Claim = found["claim"]
    profile = scenario.profile
    console.print(f"{profile.name}: {profile.description}", soft_wrap=True)
    console.print(
        f"lengths {scenario.lengths.label} (as cut: mean {claim.pipeline.mean_length:.0f}, "
        f"CV {claim.pipeline.length_cv:.2f}); {scenario.prompts_per_step} prompts x "
        f"{scenario.generations_per_prompt} generations a step"
    )
    _table(console, "Comparison", [claim.pipeline, claim.ppo])
    for key, title in (("k_sweep", "Off-policy bound"), ("split_sweep", "Generators + trainers")):
        if found[key]:
            _table(console, title, found[key])
    if found["sensitivity"]:
        _sensitivity_table(console, found["sensitivity"])
    _verdict(console, claim, found["sensitivity"])
    if figure is not None:
        console.print(f"timeline: {figure}")


def _table(console: Console, title: str, outcomes: list[Outcome]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("schedule", no_wrap=True)
    table.add_column("devices", justify="right", no_wrap=True)
    for heading, _, _ in _COLUMNS:
        table.add_column(heading, justify="right", min_width=4)
    for outcome in outcomes:
        cells = [format(getattr(outcome, name), spec) for _, name, spec in _COLUMNS]
        table.add_row(outcome.schedule, f"{outcome.generators}+{outcome.trainers}", *cells)
    console.print(table)


def _sensitivity_table(console: Console, cases: list[tuple[str, float, Claim]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    title = "Sensitivity: one figure halved or doubled (shares at most 1)"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("figure", no_wrap=True)
    for heading in ("x", "PPO idle", "Pipeline idle", "Pipeline's steps / PPO's"):
        table.add_column(heading, justify="right")
    for figure, factor, claim in cases:
        shares = (f"{claim.ppo.idle_share:.1%}", f"{claim.pipeline.idle_share:.1%}")
        table.add_row(figure, f"{factor:g}", *shares, f"{claim.speedup:.2f}")
    console.print(table)


def _verdict(console: Console, claim: Claim, cases: list[tuple[str, float, Claim]]) -> None:
    ppo, pipeline = claim.ppo, claim.pipeline
    idles, steps_more = (
        "yes" if held else "no" for held in (claim.ppo_idles_more, claim.pipeline_steps_more)
    )
    console.print(
        f"Does {ppo.schedule} idle more than {pipeline.schedule}? {idles}: "
        f"{ppo.idle_share:.1%} against {pipeline.idle_share:.1%} of device time."
    )
    console.print(
        f"Does {pipeline.schedule} make more trainer steps per device-hour? {steps_more}: "
        f"{pipeline.steps_per_device_hour:.3f} against {ppo.steps_per_device_hour:.3f}, {claim.speedup:.2f}x."
    )
    if cases:
        idle = sum(each.ppo_idles_more for _, _, each in cases)
        steps = sum(each.pipeline_steps_more for _, _, each in cases)
        gains = [each.speedup for _, _, each in cases]
        console.print(
            f"With each figure halved and doubled ({len(cases)} cases): the first is yes in {idle}, "
            f"the second in {steps}; the gain ranges from {min(gains):.2f}x to {max(gains):.2f}x."
        )
