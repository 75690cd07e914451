"""Tables of the curve verbs, and JSON with NaN and infinity as null and text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from scalerl.curve.backtest import Backtest
from scalerl.curve.comparison import Comparison
from scalerl.curve.fitted import Fit
from scalerl.curve.forecast import Forecast
from scalerl.curve.plan import Plan


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


def columns(*names: str, left: tuple[str, ...] = ()) -> Table:
    """A plain table; columns are set right unless named in `left`."""
    table = Table(box=None, pad_edge=False)
    for name in names:
        table.add_column(name, justify="left" if name in left else "right")
    return table


def print_forecast(result: Forecast, level: float) -> None:
    """Predictions, computes to reach rates, the advice."""
    out = console()
    fit = result.fit
    unit = fit.series.unit
    out.print(
        f"[bold]{fit.series.name}[/bold]  {fit.series.label}; A {fit.A:.3f}, identified: {fit.identified}"
    )
    if result.prediction is not None:
        p = result.prediction
        table = columns(unit, "forecast", f"{level:.0%} interval")
        for c, mean, lower, upper in zip(p.compute, p.mean, p.lower, p.upper, strict=True):
            table.add_row(number(float(c), 6), f"{mean:.4f}", f"{lower:.4f} to {upper:.4f}")
        out.print(table)
    for r in result.reaches:
        if math.isinf(r.compute):
            text = f"never reached by the estimate (A is {fit.A:.3f})"
        else:
            text = f"reached at about {number(r.compute)} {unit}"
        ends = f"{level:.0%}: {number(r.lower)} to {number(r.upper)}"
        out.print(
            f"{r.pass_rate:g}: {text}; {ends}; probability that the ceiling allows it {r.probability:.2f}"
        )
    if result.next_doubling is not None:
        n = result.next_doubling
        out.print(f"at {number(n.compute)} {unit}: {n.advice}")
        out.print(
            f"the estimate falls below {n.threshold:g} a doubling at {number(n.worthwhile_until)} {unit}"
        )
    if fit.identified != "yes":
        out.print(f"identified: {fit.identified} ({fit.why})")


def print_comparison(result: Comparison) -> None:
    """The sentence, then ceilings, efficiencies, budgets and crossovers."""
    out = console()
    names = [recipe.name for recipe in result.recipes]
    out.print(f"[bold]{result.sentence}[/bold]")
    table = columns("recipe", "seeds", "A", "each", "identified", left=("recipe", "each", "identified"))
    for recipe in result.recipes:
        each = ", ".join(f"{one.A:.3f}" for one in recipe.fits)
        table.add_row(
            recipe.name, str(len(recipe.fits)), f"{recipe.mean('A'):.3f}", each,
            ", ".join(one.identified for one in recipe.fits),
        )  # fmt: skip
    out.print(table)
    source = (
        "seeds" if result.spread.source == "seeds" else "a prior spread (one seed each) plus the fits' errors"
    )
    out.print(f"between-seed sd of A {result.spread.sd:.4f} from {source}, margin {result.margin:g}")
    table = columns("pair", "dA", "95% interval", "p (Holm)", "ceilings", left=("pair", "ceilings"))
    for pair in result.ceilings:
        table.add_row(
            f"{names[pair.first]} - {names[pair.second]}", f"{pair.difference:+.4f}",
            f"{pair.lower:+.4f} to {pair.upper:+.4f}", f"{pair.p_value:.3f}", pair.verdict,
        )  # fmt: skip
    out.print(table)
    for e in result.efficiencies:
        out.print(
            f"{e.first} / {e.second} at common A {e.common_A:.3f}: B x {e.B_ratio:.2f} "
            f"({e.B_ratio_interval.lower:.2f} to {e.B_ratio_interval.upper:.2f}, p {e.B_p_value:.3f}), "
            f"C_mid x {e.C_mid_ratio:.2f} ({e.C_mid_ratio_interval.lower:.2f} to "
            f"{e.C_mid_ratio_interval.upper:.2f}, p {e.C_mid_p_value:.3f})"
        )
    unit = result.recipes[0].fits[0].series.unit
    table = columns(f"probability of being best at ({unit})", *names)
    for best in result.best:
        table.add_row(number(best.budget), *(f"{p:.2f}" for p in best.probability))
    out.print(table)
    for cross in result.crossovers:
        if cross.probability >= 0.05:
            out.print(
                f"{cross.first} and {cross.second} cross at {number(cross.compute)} "
                f"({number(cross.lower)} to {number(cross.upper)}), probability {cross.probability:.2f}"
            )


def print_plans(plans: list[Plan], margin: float) -> None:
    """Plans, cheapest first; the first one checked by simulation."""
    out = console()
    table = columns(
        "prompts", "samples", "evaluations", "until", "noise sd", "half-width of A", "completions", "checked"
    )
    for plan in plans:
        checked = "" if math.isnan(plan.share) else f"{plan.share:.0%} within {margin:g}"
        table.add_row(
            str(plan.prompts),
            str(plan.samples),
            str(plan.evaluations),
            number(plan.until),
            f"{plan.noise_sd:.4f}",
            f"{plan.half_width:.4f}",
            str(plan.completions),
            checked,
        )
    out.print(table)
