"""Tables and sample texts of `scalerl eval`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from scalerl.cli.eval_points import Point
    from scalerl.task.evaluation import EvaluationSummary


def print_points(points: Sequence[Point]) -> None:
    """One line a checkpoint and set; the domains of a mixture below it."""
    table = Table(title="mean@k with its standard error (prompts; given these prompts)")
    for column in (
        "checkpoint",
        "set",
        "prompts",
        "samples",
        "pass rate",
        "pass@k",
        "truncated",
        "failed",
        "tokens",
    ):
        table.add_column(column, justify="left" if column in ("checkpoint", "set") else "right")
    for point in points:
        result = point.result
        step = point.checkpoint.step
        label = point.checkpoint.path.name if step is None else f"step {step}"
        extra = (str(result.truncated), str(result.verifier_failed), f"{result.mean_length_tokens:.0f}")
        table.add_row(label, result.name, *_cells(result.summary), *extra)
        for name, summary in result.domains.items():
            table.add_row("", f"  {name}", *_cells(summary), "", "", "")
    Console().print(table)


def _cells(summary: EvaluationSummary) -> tuple[str, str, str, str]:
    errors = " ± ".join(_number(e) for e in (summary.prompt_stderr, summary.sampling_stderr))
    best = summary.pass_at_k[-1] if summary.pass_at_k else None
    at_k = f"{best.value:.3f} @{best.k}" if best else ""
    return str(summary.prompts), str(summary.samples), f"{summary.pass_rate:.3f} ± {errors}", at_k


def _number(value: float | None) -> str:
    return "?" if value is None else f"{value:.3f}"


def print_completions(point: Point, count: int) -> None:
    """Show the first completions of a set, each of another prompt where there are several."""
    console = Console()
    shown: set[str] = set()
    for sample in point.result.samples:
        if len(shown) >= count:
            return
        if sample.prompt in shown:
            continue
        shown.add(sample.prompt)
        verdict = "verifier failed" if sample.passed is None else "passed" if sample.passed else "wrong"
        console.print(f"[bold]{escape(point.result.name)}[/bold] {escape(sample.prompt.strip())}")
        console.print(escape(sample.text.strip()), style="cyan")
        console.print(f"-> {verdict}{'' if sample.finished else ', truncated'}\n")
