"""Tables of the curve verbs, and JSON with NaN and infinity as null and text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from scalerl.curve.backtest import Backtest
from scalerl.curve.fitted import Fit


def console() -> Console:
    """Where tables go: standard output, wide enough when it isn't a terminal."""
    out = Console(highlight=False)
    return out if out.is_terminal else Console(highlight=False, width=max(out.width, 110))


def print_json(value: Any) -> None:
    """One JSON document; NaN becomes null, infinity the strings 'inf' and '-inf' (JSON has neither)."""
    print(json.dumps(plain(value), indent=2))


def plain(value: Any) -> Any:
    """Plain Python of nested values."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(value, "item") and not isinstance(value, str):
        value = value.item() if getattr(value, "ndim", 0) == 0 else value.tolist()
        return plain(value)
    if isinstance(value, float):
        return (
            None if math.isnan(value) else value if math.isfinite(value) else ("inf" if value > 0 else "-inf")
        )
    return value


def number(value: float, digits: int = 4) -> str:
    """A number for a table: fixed for rates, four significant digits otherwise."""
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "never" if value > 0 else "-inf"
    return f"{value:.{digits}g}"


def print_fit(fit: Fit, level: float, extra: dict[str, Any] | None = None) -> None:
    """The fit as a table, then the verdict."""
    out = console()
    unit = fit.series.unit
    out.print(f"[bold]{fit.series.name}[/bold]  {fit.series.label}, compute in {unit}")
    if fit.fitted:
        table = Table(box=None, pad_edge=False)
        for heading in ("", "estimate", f"{level:.0%} interval", ""):
            table.add_column(heading, justify="right" if heading == "estimate" else "left")
        for key, text in (
            ("A", "ceiling"),
            ("B", "efficiency"),
            ("C_mid", f"half of the gain, {unit}"),
            ("R0", ""),
        ):
            value = getattr(fit, key)
            ends = fit.interval(key, level)
            shown = f"before RL ({fit.r0_mode})" if key == "R0" else text
            rate = key in ("A", "R0")
            form = (lambda v: f"{v:.4f}") if rate else number
            table.add_row(key, form(value), f"{form(ends.lower)} to {form(ends.upper)}", shown)
        out.print(table)
        low, high = fit.window
        prior = "no prior" if fit.data.penalty is None else "weak prior on B and C_mid"
        out.print(
            f"{len(fit.used)} points, {number(low)} to {number(high)}; noise sd {fit.sigma:.4f}, "
            f"correlation {fit.correlation:.2f}; {prior}"
        )
    for note in fit.notes:
        out.print(f"note: {note}")
    out.print(f"identified: [bold]{fit.identified}[/bold] ({fit.why})")
    if extra and "needed_compute" in extra:
        at = extra["needed_compute"]
        text = f"about {number(at)} {unit}" if math.isfinite(at) else "not within 30 times the window's end"
        out.print(f"identified from (simulated): {text}")


def print_backtests(results: Iterable[Backtest]) -> None:
    """One row a run, cut and forecaster."""
    out = console()
    table = Table(box=None, pad_edge=False)
    for heading in (
        "run",
        "cut",
        "forecaster",
        "end error",
        "mean |error|",
        "max |error|",
        "coverage",
        "A",
        "identified",
    ):
        table.add_column(
            heading, justify="left" if heading in ("run", "forecaster", "identified") else "right"
        )
    for result in results:
        if not result.scores:
            table.add_row(
                result.name, f"{result.fraction:.0%}", "none", "-", "-", "-", "-", "-", result.fit.verdict
            )
        for i, score in enumerate(result.scores):
            first = i == 0
            table.add_row(
                result.name if first else "",
                f"{result.fraction:.0%}" if first else "",
                score.forecaster,
                f"{score.end_error:+.4f}",
                f"{score.mean_abs_error:.4f}",
                f"{score.max_abs_error:.4f}",
                "-" if math.isnan(score.coverage) else f"{score.coverage:.0%}",
                f"{result.fit.A:.3f}" if first else "",
                result.fit.identified if first else "",
            )
    out.print(table)
