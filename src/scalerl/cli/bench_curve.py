"""`scalerl bench curve`: the curve half measured: recovery, coverage, verdicts, speed, comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from scalerl.curve.coverage import Coverage, Scenario

PARTS = ("recovery", "grid", "speed", "compare", "joint", "coverage")


def curve(
    curves: Annotated[int, typer.Option(min=1, help="Simulated curves a coverage scenario.")] = 250,
    seed: Annotated[int, typer.Option(help="Of all simulations.")] = 0,
    rows: Annotated[str, typer.Option(help="Rows of Table 1, by comma, or 'all'.")] = "all",
    parts: Annotated[
        str, typer.Option(help="By comma: recovery, grid, speed, compare, joint, coverage.")
    ] = "recovery,grid,speed,compare,joint,coverage",
    trials: Annotated[
        int, typer.Option(min=1, help="Trials of compare and joint; curves of recovery and grid.")
    ] = 1000,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Keep coverage rounds here (JSON lines); a later call goes on from them."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")] = False,
) -> None:
    """Measure the fit; 480 coverage scenarios at 250 curves take about 3 minutes of CPU time.

    Example: scalerl bench curve --curves 2000 --parts coverage --out coverage.jsonl
    """
    from scalerl.cli.curve_tables import print_json
    from scalerl.curve.must_hold import misses, summary
    from scalerl.errors import UserError

    wanted = [part.strip() for part in parts.split(",")]
    if wrong := [part for part in wanted if part not in PARTS]:
        raise UserError(f"--parts {wrong[0]!r}: use {', '.join(PARTS)}")
    result: dict[str, Any] = {"seed": seed, "curves": curves, "trials": trials}
    result |= _measured(wanted, trials, seed)
    if "coverage" in wanted:
        seen = _coverage(curves, seed, rows, out)
        result["coverage"] = [one.to_dict() for one in seen]
        result["summary"] = summary(seen)
        result["missed"] = [one.to_dict() | {"missed": misses(one)} for one in seen if misses(one)]
    if json:
        print_json(result)
    else:
        _print(result)


def _measured(wanted: list[str], trials: int, seed: int) -> dict[str, Any]:
    """Everything but the coverage."""
    from scalerl.curve import benchmark, benchmark_joint, benchmark_speed

    out: dict[str, Any] = {}
    if "speed" in wanted:  # first: before anything else has taken memory
        fits = benchmark_speed.fit_speed()
        out["speed"] = benchmark.as_dicts(fits)
        out["throughput"] = benchmark.as_dicts([benchmark_speed.throughput(fits)])
    if "recovery" in wanted:
        out["recovery"] = benchmark.as_dicts(benchmark.recovery(trials, seed))
    if "grid" in wanted:
        above, apart = benchmark.excess_over_grid(trials, seed), benchmark.fast_grid_against_scipy(seed)
        out["grid"] = [{"excess_over_grid": above, "fast_grid_against_scipy": apart}]
    if "compare" in wanted:
        cases = [(1, 0.0), (2, 0.0), (3, 0.0), (3, 0.05), (1, 0.04), (2, 0.04), (3, 0.04)]
        rates = [benchmark.comparison_rates(n, d, trials, seed) for n, d in cases]
        out["compare"] = benchmark.as_dicts(rates)
    if "joint" in wanted:
        out["joint"] = benchmark.as_dicts(benchmark_joint.joint_coverage(trials, seed))
    return out


def _coverage(curves: int, seed: int, rows: str, out: Path | None) -> list[Coverage]:
    """All scenarios of the wanted rows, with a progress display at a terminal.

    Whole batches of 125 curves, each with a random stream of its own: what `out` holds for this seed is kept
    and only the batches that are missing are measured, so a stopped run goes on where it was.
    """
    from rich.progress import track

    from scalerl.cli.curve_tables import console
    from scalerl.curve.coverage import BATCH, measure, pool, scenarios
    from scalerl.curve.table1 import TABLE_1
    from scalerl.errors import UserError

    names = list(TABLE_1) if rows == "all" else [name.strip() for name in rows.split(",")]
    if wrong := [name for name in names if name not in TABLE_1]:
        raise UserError(f"--rows {wrong[0]!r}: use {', '.join(TABLE_1)}")
    kept = _kept(out, seed)
    batches = -(-curves // BATCH)
    shown = console()
    done = []
    wanted = [s for s in scenarios() if s.row in names]
    for scenario in track(wanted, "coverage", console=shown, disable=not shown.is_terminal):
        parts = kept.get(scenario, [])
        have = sum(part.curves for part in parts) // BATCH
        if have < batches:
            parts.append(measure(scenario, (batches - have) * BATCH, seed, first_batch=have))
            _keep(out, parts[-1], seed)
        done.append(pool(parts))
    return done


def _kept(out: Path | None, seed: int) -> dict[Scenario, list[Coverage]]:
    """Rounds of earlier calls with this seed, by scenario; a torn last line is left out."""
    import orjson

    from scalerl.curve.coverage import Coverage

    kept: dict[Scenario, list[Coverage]] = {}
    if out is None or not out.exists():
        return kept
    for line in out.read_bytes().split(b"\n")[:-1]:
        row = orjson.loads(line)
        if row["seed"] == seed:
            part = Coverage.from_dict(row)
            kept.setdefault(part.scenario, []).append(part)
    return kept


def _keep(out: Path | None, part: Coverage, seed: int) -> None:
    import orjson

    if out is not None:
        with out.open("ab") as file:
            file.write(orjson.dumps(part.to_dict() | {"seed": seed}) + b"\n")


def _print(result: dict[str, Any]) -> None:
    """One table a part; of the coverage a summary, then the scenarios that miss a limit."""
    from scalerl.cli.curve_tables import columns, console

    out = console()
    for part in ("recovery", "grid", "speed", "throughput", "compare", "joint", "summary", "missed"):
        rows = result.get(part)
        if not rows:
            continue
        out.print(f"[bold]{part}[/bold]")
        table = columns(*rows[0], left=("row", "R0", "noise", "parameter", "missed"))
        for row in rows:
            table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()))
        out.print(table)
    if "missed" in result and not result["missed"]:
        out.print("every scenario holds every limit")
