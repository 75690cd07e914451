"""From a path on the command line to a series: one run, an example that ships with the package, a folder of
runs."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scalerl.errors import UserError

if TYPE_CHECKING:
    from scalerl.curve.series import Series
    from scalerl.record.run import Run


def load_curve(
    path: str | None,
    example: str | None = None,
    set_name: str | None = None,
    axis: str | None = None,
    scale: str | None = None,
) -> Series:
    """The curve of the run at `path`, or of a shipped example."""
    if (path is None) == (example is None):
        raise UserError(f"give a run or --example NAME (one of: {', '.join(examples()) or 'none here'})")
    place = path if path is not None else str(example_path(str(example)))
    return curve_of(place, set_name, axis, scale)


def load_run(
    path: str | None, example: str | None = None, scale: str | None = None, **log_options: Any
) -> Run:
    """The run at `path`, or a shipped example; a log's questions are asked at a terminal."""
    from scalerl.cli.ask import load_asking

    if (path is None) == (example is None):
        raise UserError(f"give a run or --example NAME (one of: {', '.join(examples()) or 'none here'})")
    place = path if path is not None else str(example_path(str(example)))
    return load_asking(place, scale="unit" if scale == "fraction" else scale, **log_options)


def curve_of(
    path: str, set_name: str | None = None, axis: str | None = None, scale: str | None = None
) -> Series:
    """Load one run (any format of scalerl.load) and take its curve."""
    import scalerl

    return scalerl.load(path, scale="unit" if scale == "fraction" else scale).curve(set=set_name, axis=axis)


def curves_below(
    path: str, set_name: str | None = None, axis: str | None = None, scale: str | None = None
) -> list[Series]:
    """The curves of one run, of every record directly below a folder, or of every run in a log that holds
    several."""
    from scalerl.record.load import load_all

    place = Path(path)
    if place.is_dir() and not (place / "run.json").exists():
        records = sorted(p for p in place.iterdir() if (p / "run.json").exists())
        if records:
            return [curve_of(str(p), set_name, axis, scale) for p in records]
    runs = load_all(path, scale="unit" if scale == "fraction" else scale)
    return [run.curve(set=set_name, axis=axis) for run in runs.values()]


def examples() -> list[str]:
    """Names of the records that ship with the package."""
    folder = resources.files("scalerl.record") / "examples"
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []


def example_path(name: str) -> Path:
    """Where a shipped record lies; UserError names the ones there are."""
    folder = resources.files("scalerl.record") / "examples" / name
    if name not in examples():
        raise UserError(f"--example {name!r} isn't here; there are: {', '.join(examples()) or 'none'}")
    return Path(str(folder))
