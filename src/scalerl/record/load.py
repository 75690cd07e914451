"""`scalerl.load`: any supported format, chosen by content, to a Run."""

from __future__ import annotations

import re
import warnings
from dataclasses import asdict, replace
from pathlib import Path

from scalerl.errors import UserError
from scalerl.record.assemble import assemble
from scalerl.record.choice import ChoiceNeeded, listing, one_line, one_line_errors
from scalerl.record.choose import choose_y
from scalerl.record.columns import Log, Wanted
from scalerl.record.native import is_record, load_record
from scalerl.record.options import Options
from scalerl.record.readers.directory import Found, look_into
from scalerl.record.readers.wandb_run import read_wandb_path
from scalerl.record.run import Run
from scalerl.record.sniff import read_file


@one_line_errors()
def load(
    path: str | Path,
    *,
    x: str | None = None,
    y: str | None = None,
    group: str | None = None,
    scale: str | None = None,
    devices: str | None = None,
    params: float | None = None,
    restart: str | None = None,
) -> Run:
    """Load one run: a scalerl record, or another trainer's log of any supported format.

    `x` and `y` name fields (`x="index"` counts rows), `group` the fields that tell runs apart, `scale` is
    unit, percent, pm1 or LOW:HIGH, `devices` '64+16' or '8:H100', `params` the model's parameters,
    `restart` last or append. `path` may end in '#name' to pick a run of a file that holds several, and may
    be wandb:entity/project/run. What was taken and left is in `run.provenance`. UserError, one line, for
    what can't be used.
    """
    options = Options(x, y, group, scale, devices, params, restart)
    place, picked = _split_pick(str(path))
    if (record := native_at(place, options)) is not None:
        return load_record(record)
    runs = _foreign(place, options, picked)
    if len(runs) > 1:
        first = next(iter(runs))
        _demand_rates(runs)
        raise ChoiceNeeded(
            f"{place}: holds {len(runs)} runs: {listing(list(runs))}; pick one as '{place}#{first}'",
            "run",
            tuple(runs),
        )
    return next(iter(runs.values()))()


@one_line_errors()
def load_all(
    path: str | Path,
    *,
    x: str | None = None,
    y: str | None = None,
    group: str | None = None,
    scale: str | None = None,
    devices: str | None = None,
    params: float | None = None,
    restart: str | None = None,
) -> dict[str, Run]:
    """All runs of a file or a folder, by name; options as for `load`. One run gives one entry."""
    options = Options(x, y, group, scale, devices, params, restart)
    place, picked = _split_pick(str(path))
    if (record := native_at(place, options)) is not None:
        run = load_record(record)
        return {run.name: run}
    return _all_usable(place, _foreign(place, options, picked))


def native_at(place: str, options: Options) -> Path | None:
    """The folder of a scalerl run record, named itself or by its run.json; None for anything else.

    A record knows its own fields: options that are for other trainers' logs are refused, not ignored.
    """
    if place.startswith("wandb:"):
        return None
    path = Path(place)
    folder = path.parent if path.name == "run.json" else path
    if not is_record(folder):
        return None
    _refuse_log_options(f"{place}: a run record of scalerl's own", options)
    return folder


def _refuse_log_options(what: str, options: Options) -> None:
    said = [name for name, value in asdict(options).items() if value not in (None, "unit")]
    if said:
        flags = ", ".join(f"--{name}" for name in said)
        raise UserError(f"{what}; {flags} is for other trainers' logs: leave it away")


def _all_usable(place: str, runs: dict[str, _Later | _Record]) -> dict[str, Run]:
    """Every run that can be put together; others are warned about, unless none can or a choice is needed."""
    found: dict[str, Run] = {}
    refused: list[UserError] = []
    for name, make in runs.items():
        try:
            found[name] = make()
        except ChoiceNeeded:
            raise
        except UserError as error:
            refused.append(error)
    if not found:
        raise refused[0]
    for why in refused:
        warnings.warn(f"{place}: left out: {one_line(str(why))}", stacklevel=3)
    return found


class _Later:
    """A run that is put together when asked for: naming the runs of a file costs one reading."""

    def __init__(self, path: Path, run: str, log: Log, options: Options) -> None:
        self.path, self.run, self.log, self.options = path, run, log, options

    def __call__(self) -> Run:
        return assemble(self.path, self.run, self.log.runs[self.run], self.log, self.options)

    def check(self) -> None:
        """UserError where the run has no field for y."""
        choose_y(self.log.runs[self.run], self.options.y, str(self.path))


def _demand_rates(runs: dict[str, _Later | _Record]) -> None:
    """UserError where no run of a log has anything for y: said before a run is asked for."""
    for make in runs.values():
        try:
            make.check()
        except UserError as error:
            refused = error
        else:
            return
    raise refused


class _Record:
    """A run record inside a folder of runs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self) -> Run:
        return load_record(self.path)

    def check(self) -> None:
        """A record always has what it was written with."""


def _foreign(place: str, options: Options, picked: str | None) -> dict[str, _Later | _Record]:
    wanted = Wanted(None if options.x == "index" else options.x, options.y, options.group)
    if place.startswith("wandb:"):
        logs = [("", Path(place.rsplit("/", 1)[-1]), read_wandb_path(place, wanted))]
        return _pick(place, {"": _Later(logs[0][1], "", logs[0][2], options)}, picked)
    path = Path(place)
    if re.match(r"https?://", place):
        raise UserError(f"{place}: a web address; give a file or folder, or wandb:entity/project/run")
    if not path.exists():
        raise UserError(f"{place}: no such file or directory")
    if not path.is_dir():
        return _pick(place, _of_log(path, read_file(path, wanted), options), picked)
    runs: dict[str, _Later | _Record] = {}
    found = look_into(path)
    if all(item.record for item in found):
        _refuse_log_options(f"{place}: only run records of scalerl's own in it", options)
    refused: list[UserError] = []
    for item in found:
        try:
            runs |= _of_found(item, wanted, options, alone=len(found) == 1)
        except UserError as error:
            refused.append(error)
    if not runs:
        raise refused[0]
    for why in refused:
        warnings.warn(f"{place}: left out: {one_line(str(why))}", stacklevel=3)
    return _pick(place, runs, picked)


def _of_found(item: Found, wanted: Wanted, options: Options, alone: bool) -> dict[str, _Later | _Record]:
    if item.record:
        return {item.name: _Record(item.path)}
    inner = _of_log(item.path, item.read(wanted), options)
    if alone:
        return inner
    _demand_rates(inner)
    return {item.name + (f" {run}" if run else ""): make for run, make in inner.items()}


def _of_log(path: Path, log: Log, options: Options) -> dict[str, _Later | _Record]:
    if not log.runs:
        raise UserError(f"{path}: no run in it; nothing to fit")
    return {run: _Later(path, run, log, replace(options)) for run in log.runs}


def _pick(place: str, runs: dict[str, _Later | _Record], picked: str | None) -> dict[str, _Later | _Record]:
    if picked is None:
        return runs
    if list(runs) == [""]:
        raise UserError(f"{place}: holds one run, without a name; leave '#{picked}' away")
    if picked not in runs:
        raise UserError(f"{place}: no run {picked!r}; it has {listing(list(runs), 12)}")
    return {picked: runs[picked]}


def _split_pick(path: str) -> tuple[str, str | None]:
    """'file#run' as (file, run); a '#' that is part of an existing path is left alone."""
    if "#" not in path or Path(path).exists():
        return path, None
    place, _, picked = path.partition("#")
    while not Path(place).exists() and "#" in picked:
        more, _, picked = picked.partition("#")
        place = f"{place}#{more}"
    return place, picked
