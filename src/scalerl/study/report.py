"""report.html and the figures: what a study shows to people."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scalerl.curve.plot import plot_run
from scalerl.study.result import RunResult, as_text
from scalerl.study.tables import write_tables

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; margin: 1rem 0; font-variant-numeric: tabular-nums }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid #ddd }
th:first-child, td:first-child { text-align: left }
figure { margin: 2rem 0 } svg { max-width: 100%; height: auto } figcaption, .note { color: #555 }
code { background: #f3f3f3; padding: .1rem .3rem }
"""

MOST_RUNS_IN_LEGEND = 4
HEADINGS = ("run", "R0", "A", "90% interval of A", "B", "C_mid", "forecast", "observed", "error")


def write_report(name: str, results: Sequence[RunResult], folder: Path, fraction: float) -> Path:
    """Write the tables, `figures/*.svg` and `*.png`, and `report.html`; return the report's path."""
    write_tables(results, folder)
    figures = folder / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    drawings = [_draw([result], figures / result.name) for result in results]
    together = _draw(results, figures / "all") if len(results) > 1 else ""
    body = [
        f"<h1>{html.escape(name)}</h1>",
        f"<p>{html.escape(summary(results, fraction))}</p>",
        together,
        "<h2>Forecasts</h2>",
        _table(results),
        _legend(results[0].series.unit),
    ]
    for result, drawing in zip(results, drawings, strict=True):
        body += [f"<h2>{html.escape(result.name)}</h2>", f"<p>{html.escape(result.fit.why)}</p>", drawing]
        body += [_details(result)]
    path = folder / "report.html"
    head = f"<meta charset='utf-8'><title>{html.escape(name)}</title><style>{STYLE}</style>"
    path.write_text(
        f"<!doctype html><html><head>{head}</head><body>{''.join(body)}</body></html>", encoding="utf-8"
    )
    return path


def _legend(unit: str) -> str:
    text = (
        f"Compute is in {unit}. Forecast and observed are means over the last quarter of it; the fit saw the "
        "first part only. Dots: evaluations in the fitted window; solid line: the fitted law; dashed: its "
        "forecast; crosses: what then happened."
    )
    return f'<p class="note">{html.escape(text)}</p>'


def summary(results: Sequence[RunResult], fraction: float) -> str:
    """Return the study in a few sentences."""
    forecast = [result for result in results if result.fit.fitted]
    text = f"{len(results)} runs; each law was fitted to the first {fraction:.0%} of the run's compute."
    if forecast:
        worst = max(forecast, key=lambda result: abs(result.error))
        text += f" The forecast of the last quarter was off by at most {abs(worst.error):.3f} ({worst.name})."
    if len(forecast) < len(results):
        text += f" Without a forecast, since the first part can't be fitted: {len(results) - len(forecast)}."
    return text


def row_of(result: RunResult) -> tuple[str, ...]:
    """Return a run's row of the table, as text."""
    fit, ceiling = result.fit, result.ceiling()
    return (
        result.name,
        as_text(fit.R0, ".3f"),
        as_text(fit.A, ".3f"),
        f"{as_text(ceiling.lower, '.3f')} to {as_text(ceiling.upper, '.3f')} ({fit.identified})",
        as_text(fit.B, ".2f"),
        as_text(fit.C_mid, ".3g"),
        as_text(result.forecast, ".3f"),
        f"{result.observed:.3f}",
        as_text(result.error, "+.3f"),
    )


def _table(results: Sequence[RunResult]) -> str:
    head = "".join(f"<th>{name}</th>" for name in HEADINGS)
    rows = ("".join(f"<td>{html.escape(cell)}</td>" for cell in row_of(result)) for result in results)
    return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


def _draw(results: Sequence[RunResult], path: Path) -> str:
    """Draw the forecasts of runs on one figure; write SVG and PNG, return the SVG as an HTML figure."""
    from matplotlib.figure import Figure

    from scalerl.curve.plot import COLOURS, MARKERS

    figure = Figure(figsize=(8, 5), layout="constrained")
    ax = figure.subplots()
    for index, result in enumerate(results):
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        plot_run(result.series, result.fit, ax=ax, colour=colour, marker=marker)
    if len(results) > MOST_RUNS_IN_LEGEND and (legend := ax.get_legend()) is not None:
        legend.remove()
    figure.savefig(path.with_suffix(".png"), dpi=150)
    figure.savefig(path.with_suffix(".svg"))
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    svg = buffer.getvalue()
    return f"<figure>{svg[svg.index('<svg') :]}</figure>"


def _details(result: RunResult) -> str:
    """Return what a reader asks next: how the run went besides its pass rate."""
    steps = result.run.steps
    if not steps:
        return ""
    last = steps[-max(1, len(steps) // 10) :]

    def mean(key: str) -> float:
        values = [row[key] for row in last if row.get(key) is not None]
        return sum(values) / len(values) if values else float("nan")

    facts: dict[str, Any] = {
        "steps": len(steps),
        "tokens generated": f"{steps[-1]['compute']['tokens_generated']:,}",
        "tokens trained": f"{steps[-1]['compute']['tokens_trained']:,}",
        "seed": result.run.header.seed,
        "length at the end, tokens": f"{mean('mean_length'):.1f}",
        "interrupted at the end": f"{mean('interrupted') / max(1.0, mean('completions')):.1%}",
        "truncated at the end": f"{mean('truncated_share'):.1%}",
        "entropy at the end, nats a token": f"{mean('entropy'):.3f}",
        "staleness, mean": f"{mean('staleness_mean'):.2f}",
    }
    rows = "".join(
        f"<tr><td>{name}</td><td>{html.escape(str(value))}</td></tr>" for name, value in facts.items()
    )
    return f"<table>{rows}</table>"
