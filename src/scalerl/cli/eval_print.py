"""Tables and sample texts of `scalerl eval`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from scalerl.cli.eval_points import Point
    from scalerl.task.evaluate import EvaluationResult
    from scalerl.task.evaluation import EvaluationSummary, PromptCounts

_COLUMNS = ("set", "asked", "pass rate", "± prompts", "± samples", "pass@k", "truncated", "tokens")


def print_points(points: Sequence[Point]) -> None:
    """One line a checkpoint and set; the domains of a mixture below it."""
    several = len({point.checkpoint.path for point in points}) > 1
    failed = any(point.result.verifier_failed for point in points)
    table = Table(title=None if several else _label(points[0]), box=None, pad_edge=False)
    if several:
        table.add_column("checkpoint")
    for column in _COLUMNS + (("failed",) if failed else ()):
        table.add_column(column, justify="left" if column == "set" else "right")
    for point in points:
        first = (_label(point),) if several else ()
        table.add_row(
            *first, *_whole(point.result), *((str(point.result.verifier_failed),) if failed else ())
        )
        for name, summary in point.result.domains.items():
            table.add_row(*(("",) if several else ()), f"  {name}", str(summary.prompts), *_cells(summary))
    Console().print(table)


def _label(point: Point) -> str:
    return point.checkpoint.path.name if point.checkpoint.step is None else f"step {point.checkpoint.step}"


def _whole(result: EvaluationResult) -> tuple[str, ...]:
    length = f"{result.mean_length_tokens:.0f}"
    return result.name, _asked(result.counts), *_cells(result.summary), str(result.truncated), length


def _asked(counts: PromptCounts) -> str:
    return f"{len(counts.prompt_ids)} x {int(counts.sampled.max())}"


def _cells(summary: EvaluationSummary) -> tuple[str, ...]:
    errors = (_number(error) for error in (summary.prompt_stderr, summary.sampling_stderr))
    best = next((found for found in reversed(summary.pass_at_k) if found.k > 1), None)
    return f"{summary.pass_rate:.3f}", *errors, f"{best.value:.3f} @{best.k}" if best else ""


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
        console.print(escape(sample.text.strip()), style="cyan", highlight=False)
        console.print(f"-> {verdict}{'' if sample.finished else ', truncated'}\n")
