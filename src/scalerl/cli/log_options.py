"""Options of the verbs that read another trainer's log, and what is printed of what was taken from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from scalerl.record.options import Options

if TYPE_CHECKING:
    from scalerl.record.run import Run

X = Annotated[str | None, typer.Option("--x", help="A log's field for compute ('index': count the rows).")]
Y = Annotated[str | None, typer.Option("--y", help="A log's field for the pass rate.")]
GROUP = Annotated[str | None, typer.Option("--group", help="Fields that tell a log's runs apart, by commas.")]
DEVICES = Annotated[str | None, typer.Option("--devices", help="A log's devices: 8, 64+16 or 64+16:H100.")]
PARAMS = Annotated[float | None, typer.Option("--params", help="Model parameters, for FLOPs: 8e9.")]
RESTART = Annotated[str | None, typer.Option("--restart", help="A log that starts over: last or append.")]


@dataclass(frozen=True)
class LogOptions(Options):
    """The options of `scalerl.load`, as the command line was given them."""

    def said(self) -> dict[str, Any]:
        """The options that were given, by the keywords of `scalerl.load`."""
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return given | ({"scale": "unit"} if self.scale == "fraction" else {})


def source_of(run: Run) -> dict[str, Any]:
    """{'source': ...} for --json; empty for scalerl's own records."""
    return {} if run.provenance is None else {"source": run.provenance.model_dump()}


def say_sources(runs: Iterable[Run]) -> None:
    """Print what was taken from each log, on stderr, so that the answer's own output stays as it is."""
    for run in runs:
        if run.provenance is not None:
            typer.echo(run.provenance.describe(), err=True)
