"""`scalerl train`: one run, resumable."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from scalerl.cli.progress import Display, RunProgress
    from scalerl.loop.config import RunConfig
    from scalerl.record.schema import Evaluation

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a field of the recipe: --set loss.eps_max=8 (may be repeated)."),
]


def train(
    out: Annotated[
        Path, typer.Option("--out", help="Folder of the run's record; an unfinished run goes on.")
    ],
    recipe: Annotated[
        str, typer.Option(help="A named recipe or a recipe file (`scalerl recipes`).")
    ] = "scalerl",
    config: Annotated[
        Path | None,
        typer.Option(help="A whole run's config (YAML, TOML, JSON); without it: the quickstart's."),
    ] = None,
    set_: Overrides = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Trainer steps.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="All randomness of the run.")] = None,
    model: Annotated[str | None, typer.Option(help="A Hugging Face model folder, or `quickstart`.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1 ...")] = None,
    clock: Annotated[
        str | None, typer.Option(help="A simulated cluster's profile (source-80, node-8xh200 or a file).")
    ] = None,
    tokens_per_token: Annotated[
        int, typer.Option(min=1, help="Simulated tokens that one real token stands for, with --clock.")
    ] = 500,
    print_config: Annotated[bool, typer.Option(help="Print the run's config as YAML and stop.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON, no progress.")] = False,
) -> None:
    """Train one run and record it.

    Example: scalerl train --recipe scalerl --seed 1 --out runs/a

    The quickstart's task and model are the default; a config file says everything:
    scalerl train --print-config --out runs/a > run.yaml; edit; scalerl train --config run.yaml --out runs/a
    """
    chosen: dict[str, Any] = {"steps": steps, "seed": seed, "model": model, "device": device}
    chosen["clock"] = None if clock is None else clock_settings(clock, tokens_per_token)
    run = _config(config, recipe, set_ or [], {k: v for k, v in chosen.items() if v is not None}, out)
    if print_config:
        import yaml

        typer.echo(yaml.safe_dump(run.model_dump(mode="json"), sort_keys=False), nl=False)
        return
    run_with_progress(run, out, json)


def _config(
    path: Path | None, recipe: str, overrides: list[str], chosen: dict[str, Any], out: Path
) -> RunConfig:
    from scalerl.loop.config_file import load_run_config, run_config_from
    from scalerl.recipe.custom import resolve_user_files
    from scalerl.recipe.overrides import apply_overrides
    from scalerl.study.quickstart import quickstart_config, quickstart_recipe

    if path is not None:
        config = load_run_config(path)
    else:
        config = quickstart_config(quickstart_recipe(recipe), name=out.name, seed=0)
    if overrides:
        chosen["recipe"] = resolve_user_files(apply_overrides(config.recipe, overrides), Path.cwd())
    return run_config_from({**dict(config), **chosen}, str(path or "the command line"))


def clock_settings(profile: str, tokens_per_token: int) -> dict[str, Any]:
    """Return a config's `clock` field for a profile's name or file."""
    from scalerl.loop.profile import load_profile

    return {"profile": load_profile(profile), "tokens_per_token": tokens_per_token}


def run_with_progress(config: RunConfig, out: Path, json: bool) -> None:
    """Run and show progress; print where the record is, and what to do with it."""
    from rich.console import Console

    from scalerl.cli.progress import Display, RunProgress
    from scalerl.errors import NoGoodAnswer
    from scalerl.loop.learner import RunStopped
    from scalerl.loop.run import train_run

    console = Console(stderr=True)
    row = RunProgress(config.name, config.steps)
    with Display([row], console, quiet=json) as display:
        try:
            train_run(config, out, _Screen(row, display))
        except RunStopped as reason:
            row.state = "stopped"
            raise NoGoodAnswer(f"{out}: the run stopped at step {row.step}: {reason}") from None
        row.state = "done"
    _print_result(out, row, json)


def _print_result(out: Path, row: RunProgress, json: bool) -> None:
    if json:
        import orjson

        result = {
            "path": str(out),
            "step": row.step,
            "pass_rate": row.pass_rate,
            "compute": dict(row.compute),
        }
        typer.echo(orjson.dumps(result).decode())
        return
    rate = "" if row.pass_rate is None else f", held-out pass rate {row.pass_rate:.3f}"
    typer.echo(f"{out}: {row.step} steps{rate}. Next: scalerl fit {out}")


class _Screen:
    """The listener that feeds the display."""

    def __init__(self, row: RunProgress, display: Display) -> None:
        self._row = row
        self._display = display

    def on_step(self, row: Mapping[str, Any]) -> None:
        """Show the step."""
        self._row.begin(row["step"] - 1)
        self._row.step = row["step"]
        self._row.train_pass_rate = row.get("pass_rate")
        self._row.compute = row["compute"].model_dump()
        self._display.refresh()

    def on_evaluation(self, evaluation: Evaluation) -> None:
        """Show the held-out pass rate."""
        self._row.pass_rate = evaluation.pass_rate
        self._row.step = max(self._row.step, evaluation.step)
        self._display.refresh()

    def on_event(self, kind: str, message: str) -> None:
        """Say what happened."""
        self._display.say(f"{kind}: {message}")
