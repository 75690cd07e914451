"""Which fields of a log are x and y: the user's, or the most telling ones, with what was guessed."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from scalerl.errors import UserError
from scalerl.record.choice import listing
from scalerl.record.columns import Columns
from scalerl.record.fields import (
    RATES,
    companions,
    is_reward_function,
    preference,
    role_of,
    spread_fields,
)
from scalerl.record.scale import LARGEST_STD, Evidence

FEWEST_HELD_OUT = 4
"""A held-out field with fewer points than the law has parameters gives way to the train reward."""


@dataclass
class Chosen:
    """The field taken for y, fields that were possible too, and what is to be said about it."""

    y: str
    others: list[str]
    guesses: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def choose_y(columns: Columns, named: str | None, where: str) -> Chosen:
    """The named field, else a held-out one with most points, else an unstated one, else the train reward."""
    if named is not None:
        return Chosen(_exact(columns, named, where), _candidates(columns, exclude=named))
    by_role = {role: _ranked(columns, role) for role in RATES}
    for role in ("held_out", "unstated"):
        usable = [name for name in by_role[role] if _points(columns, name) >= FEWEST_HELD_OUT]
        if usable:
            best = usable[0] if role == "unstated" else min(usable, key=lambda name: -_points(columns, name))
            return Chosen(best, _candidates(columns, exclude=best))
    remaining = by_role["train"] or by_role["held_out"] or by_role["unstated"]
    if not remaining:
        if void := [name for name in columns.names if role_of(name) in RATES]:
            raise UserError(
                f"{where}: {listing(void)} holds no finite number, only NaN, infinity, null or text; "
                "nothing to fit"
            )
        known = [name for name in columns.names if role_of(name) not in ("step", "group")]
        fields = f"; its fields: {listing(known, 12)}" if known else ""
        raise UserError(f"{where}: no field that could be a pass rate or a reward{fields}; name one with --y")
    chosen = Chosen(remaining[0], _candidates(columns, exclude=remaining[0]))
    few = [name for name in by_role["held_out"] + by_role["unstated"] if name != chosen.y]
    if few:
        chosen.guesses.append(
            f"{few[0]} has only {_points(columns, few[0])} point(s), so the train reward is taken; --y picks"
        )
    functions = reward_functions(columns)
    if role_of(chosen.y) == "train" and len(functions) > 1 and not is_reward_function(chosen.y):
        chosen.warnings.append(
            f"{chosen.y} adds up {len(functions)} reward functions ({listing(functions, 4)}): "
            "not the pass rate of one check"
        )
    return chosen


def _exact(columns: Columns, named: str, where: str) -> str:
    if columns.count(named):
        return named
    if named in columns.names:
        raise UserError(
            f"{where}: field {named!r} holds no number; other fields: {listing(_candidates(columns))}"
        )
    fields = [name for name in columns.names if role_of(name) != "group"]
    raise UserError(f"{where}: no field {named!r}; fields: {listing(_closest(named, fields), 12)}")


def _closest(named: str, fields: list[str]) -> list[str]:
    import difflib

    close = difflib.get_close_matches(named, fields[:2000], n=5, cutoff=0.5)
    return [*close, *(name for name in fields if name not in close)]


def _ranked(columns: Columns, role: str) -> list[str]:
    """Fields of a role that have a number, in order of preference, then of appearance."""
    return sorted((name for name in columns.having(role) if _points(columns, name)), key=preference)


def _candidates(columns: Columns, exclude: str | None = None) -> list[str]:
    return [name for role in RATES for name in _ranked(columns, role) if name != exclude]


def _points(columns: Columns, name: str) -> int:
    """Rows in which a field has a finite number."""
    return columns.get(name).finite_seen()


def reward_functions(columns: Columns) -> list[str]:
    """Reward functions that differ from each other (a total that repeats one of them isn't another)."""
    seen: dict[bytes, str] = {}
    for name in columns.having("train"):
        if is_reward_function(name):
            seen.setdefault(columns.column(name)[1].tobytes(), name)
    return list(seen.values())


def evidence_for(columns: Columns, name: str) -> Evidence:
    """What companion fields say of the single rewards behind a mean."""
    low, high, std = 0.0, 1.0, 0.0
    said: list[str] = []
    for other in (*companions(name), *spread_fields(name)):
        least, most = columns.get(other).limits()
        if most < least:
            continue
        if other in spread_fields(name):
            std = most
            said += [other] if std > LARGEST_STD else []
        elif least < low or most > high:
            low, high = min(low, least), max(high, most)
            said.append(other)
    parts = len(reward_functions(columns)) if role_of(name) == "train" and not is_reward_function(name) else 1
    return Evidence(low, high, std, " and ".join(said), parts)


def fields_in_unit(columns: Columns, names: list[str]) -> list[str]:
    """Which fields could be pass rates as they are: all values, and all single rewards, within 0..1."""
    found = []
    for name in names:
        low, high = columns.get(name).limits()
        if low >= 0 and 0 < high <= 1 and not evidence_for(columns, name).outside:
            found.append(name)
    return found


def run_title(path: Path, run: str) -> str:
    """A name for the run: its name in the file, else the file's, with its folder where that tells more."""
    if run:
        return run
    generic = {"trainer_state", "metrics", "output", "log", "train", "history", "progress", "run", "debug"}
    if path.stem.lower() in generic or path.name.startswith("events.out.tfevents"):
        return path.resolve().parent.name or path.stem
    return path.stem
