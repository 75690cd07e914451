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
    several = len({point.checkpoint.path for point in points}) > 1
    failed = any(point.result.verifier_failed for point in points)
    largest = max((found.k for point in points for found in point.result.summary.pass_at_k), default=1)
    at_k = (f"pass@{largest}",) if largest > 1 else ()
    table = Table(
        title=None if several else points[0].checkpoint.path.name,
        box=None,
        padding=(0, 2, 0, 0),
        pad_edge=False,
    )
    left, right = ("step", "set"), ("asked", "pass rate", "± prompts", "± samples", *at_k)
    for column in left if several else left[1:]:
        table.add_column(column)
    for column in (*right, "cut", "tokens", *(("failed",) if failed else ())):
        table.add_column(column, justify="right")
    for point in points:
        result = point.result
        begin = (_label(point),) if several else ()
        asked = f"{len(result.counts.prompt_ids)} x {int(result.counts.sampled.max())}"
        end = (str(result.truncated), f"{result.mean_length_tokens:.0f}")
        last = (str(result.verifier_failed),) if failed else ()
        table.add_row(*begin, result.name, asked, *_cells(result.summary, largest), *end, *last)
        for name, summary in result.domains.items():
            table.add_row(*("" for _ in begin), f"  {name}", str(summary.prompts), *_cells(summary, largest))
    Console().print(table)


def _label(point: Point) -> str:
    step = point.checkpoint.step
    return point.checkpoint.path.name if step is None else str(step)


def _cells(summary: EvaluationSummary, k: int) -> tuple[str, ...]:
    errors = (_number(error) for error in (summary.prompt_stderr, summary.sampling_stderr))
    found = {at.k: at.value for at in summary.pass_at_k}
    return f"{summary.pass_rate:.3f}", *errors, *((_number(found.get(k)),) if k > 1 else ())


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
