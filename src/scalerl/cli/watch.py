"""`scalerl watch`: follow a run while it is written: step, pass rate, compute, and the forecast so far."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scalerl.cli.fit import SCALE
from scalerl.cli.log_options import DEVICES, GROUP, PARAMS, RESTART, LogOptions, X, Y

if TYPE_CHECKING:
    from rich.console import RenderableType

    from scalerl.curve.series import Series
    from scalerl.record.run import Run

FEWEST_POINTS = 6
_BARS = "▁▂▃▄▅▆▇█"


def watch(
    run: Annotated[str, typer.Argument(help="Run record, or a log of another trainer, maybe still written.")],
    once: Annotated[bool, typer.Option("--once", help="Print one snapshot and leave.")] = False,
    seconds: Annotated[float, typer.Option("--every", min=0.1, help="Seconds between two looks.")] = 5.0,
    set_name: Annotated[str | None, typer.Option("--set", help="Evaluation set.")] = None,
    axis: Annotated[str | None, typer.Option("--axis", help="Compute axis.")] = None,
    x: X = None,
    y: Y = None,
    group: GROUP = None,
    scale: SCALE = None,
    devices: DEVICES = None,
    params: PARAMS = None,
    restart: RESTART = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one snapshot as JSON.")] = False,
) -> None:
    """Watch a run: latest step, pass rate and compute, a line of its curve, and Eq. 1 fitted to it so far.

    Example: scalerl watch runs/a --every 10
    """
    options = LogOptions(x, y, group, scale, devices, params, restart).said()
    first = snapshot(run, set_name, axis, options)
    if as_json:
        import orjson

        typer.echo(orjson.dumps(first, option=orjson.OPT_INDENT_2 | orjson.OPT_SERIALIZE_NUMPY).decode())
        return
    from rich.console import Console

    console = Console()
    if once or not console.is_terminal:
        console.print(picture(first))
        return
    _follow(run, seconds, (set_name, axis, options), console, first)


def _follow(run: str, seconds: float, ask: tuple[Any, Any, Any], console: Any, first: dict[str, Any]) -> None:
    """Look again and again until the user stops it; a moment's half-written state is shown as a remark."""
    from rich.live import Live

    from scalerl.errors import UserError

    with Live(picture(first), console=console, auto_refresh=False) as live:
        shown = first
        while True:
            time.sleep(seconds)
            try:
                shown = snapshot(run, *ask)
            except UserError as error:
                shown = {**shown, "remark": str(error)}
            live.update(picture(shown), refresh=True)


def snapshot(path: str, set_name: str | None, axis: str | None, options: dict[str, Any]) -> dict[str, Any]:
    """What there is to say about the run now, as plain data; without an evaluation yet there is no curve."""
    import warnings

    from scalerl.cli.ask import load_asking, name_of

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a line that is being written looks torn
        run = load_asking(path, **options)
    out: dict[str, Any] = {
        "run": run.name or name_of(path),
        "path": path,
        "step": _last_step(run),
        "remark": None,
    }
    if run.provenance is not None:
        out["source"] = run.provenance.model_dump()
    if not len(run.evaluations):
        return out | {"points": 0, "remark": "no evaluation yet"}
    series = run.curve(set=set_name, axis=axis)
    out |= {
        "set": series.set,
        "label": series.label,
        "axis": series.axis,
        "points": len(series),
        "compute": float(series.compute[-1]),
        "pass_rate": float(series.pass_rate[-1]),
        "best_pass_rate": float(series.pass_rate.max()),
        "r0": series.r0,
        "curve": [float(rate) for rate in series.pass_rate[:: max(1, len(series) // 60)]],
        "alarms": [str(e.get("message")) for e in run.events if e.get("kind") == "alarm"][-3:],
        "metrics": _last_metrics(run),
    }
    return out | {"forecast": forecast(series)}


def _last_step(run: Run) -> int:
    steps = [row["step"] for row in run.steps[-1:]] + [e.step for e in run.evaluations[-1:]]
    return max(steps, default=0)


def _last_metrics(run: Run) -> dict[str, float]:
    """The latest trainer step's own numbers, the ones a watcher asks for first."""
    wanted = (
        "reward",
        "pass_rate",
        "truncated",
        "interrupted",
        "entropy",
        "grad_norm",
        "staleness_max",
        "clip_share",
    )
    row = run.steps[-1] if run.steps else {}
    return {name: row[name] for name in wanted if isinstance(row.get(name), int | float)}


def forecast(series: Series) -> dict[str, Any] | None:
    """Eq. 1 fitted to the points so far and read off at twice the compute; None with too few points."""
    import scalerl

    if len(series) < FEWEST_POINTS:
        return None
    fitted = scalerl.fit(series)
    if not fitted.fitted:
        return {"identified": "no", "why": fitted.why}
    ahead = 2.0 * float(series.compute[-1])
    predicted = fitted.predict([ahead])
    low, high = fitted.interval("A")[:2]
    return {
        "A": fitted.A,
        "A_interval": [float(low), float(high)],
        "B": fitted.B,
        "C_mid": fitted.C_mid,
        "identified": fitted.identified,
        "why": fitted.why,
        "at_compute": ahead,
        "mean": float(predicted.mean[0]),
        "lower": float(predicted.lower[0]),
        "upper": float(predicted.upper[0]),
    }


def picture(state: dict[str, Any]) -> RenderableType:
    """The snapshot as a rich panel."""
    from rich.panel import Panel
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    for name, text in _rows(state):
        table.add_row(name, text)
    return Panel(table, title=str(state["run"]), title_align="left", expand=False)


def _rows(state: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("step", f"{state['step']:,}")]
    if state["points"]:
        rows += [
            ("pass rate", f"{state['pass_rate']:.4f} (best {state['best_pass_rate']:.4f}), {state['label']}"),
            (
                "compute",
                f"{state['compute']:.6g} {state['axis']}, {state['points']} points of {state['set']}",
            ),
            ("curve", _spark(state["curve"])),
        ]
        rows += _forecast_rows(state["forecast"], state["axis"])
        if state["metrics"]:
            rows.append(("last step", ", ".join(f"{k} {v:.4g}" for k, v in state["metrics"].items())))
        rows += [("alarm", text) for text in state["alarms"]]
    if state["remark"]:
        rows.append(("remark", str(state["remark"])))
    return rows


def _forecast_rows(said: dict[str, Any] | None, axis: str) -> list[tuple[str, str]]:
    if said is None:
        return [("forecast", f"from {FEWEST_POINTS} points on")]
    if "A" not in said:
        return [("forecast", str(said["why"]))]
    low, high = said["A_interval"]
    ahead = (
        f"{said['mean']:.4f} ({said['lower']:.4f} to {said['upper']:.4f}) at {said['at_compute']:.6g} {axis}"
    )
    return [
        ("ceiling A", f"{said['A']:.4f} ({low:.4f} to {high:.4f}), identified: {said['identified']}"),
        ("forecast", ahead),
        *([("why", str(said["why"]))] if said["identified"] != "yes" else []),
    ]


def _spark(rates: list[float]) -> str:
    """The curve in one line of eighths, from its lowest to its highest point."""
    low, high = min(rates), max(rates)
    span = (high - low) or 1.0
    return "".join(_BARS[round(7 * (rate - low) / span)] for rate in rates) + f"  {low:.3f} to {high:.3f}"
