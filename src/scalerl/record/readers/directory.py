"""Folders: a W&B run, a checkpoint, TensorBoard files, one log, or many runs side by side."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from scalerl.errors import UserError
from scalerl.record.columns import Log, Wanted
from scalerl.record.native import is_record
from scalerl.record.readers.tensorboard_events import read_events

_LOGS = (
    "trainer_state.json", "metrics.jsonl", "logging.jsonl", "trainer_log.jsonl", "metrics.csv",
    "progress.csv", "training_history.jsonl", "log_history.json", "output.log", "train.log",
)  # fmt: skip
_SUFFIXES = (".jsonl", ".csv", ".tsv", ".parquet", ".log")
_MOST_FOLDERS = 2000


@dataclass(frozen=True)
class Found:
    """Something in a folder that may be a run: a record, or a log with its way of reading."""

    name: str
    path: Path
    record: bool
    read: Callable[[Wanted], Log]


def look_into(path: Path) -> list[Found]:
    """The runs of a folder: the folder itself where it is one, else each thing in it that may be one."""
    own = _as_run(path, path.name)
    if own is not None:
        return [own]
    found: list[Found] = []
    folders = sorted(item for item in path.iterdir() if _is_plain_folder(item))
    for folder in folders[:_MOST_FOLDERS]:
        inside = _as_run(folder, folder.name)
        if inside is not None:
            found.append(inside)
    found += [_log(item) for item in sorted(path.iterdir()) if _is_log(item)]
    if not found:
        raise UserError(
            f"{path}: no run in this folder (no run.json, trainer_state.json, metrics.jsonl, events, ...)"
        )
    return found


def _as_run(path: Path, name: str) -> Found | None:
    """A folder that is one run itself, or None."""
    if is_record(path):
        return Found(name, path, True, lambda wanted: Log("scalerl"))
    events = sorted(path.glob("events.out.tfevents.*"), key=lambda item: (_written(item), item.name))
    if events:
        return Found(name, events[0], False, lambda wanted: read_events(events, wanted))
    wandb = [*sorted(path.glob("*.wandb")), *sorted((path / "files").glob("output.log"))]
    if wandb:
        return _log(wandb[0], name)
    checkpoints = sorted(
        path.glob("checkpoint-*/trainer_state.json"), key=lambda item: _number(item.parent.name)
    )
    logs = [path / log for log in _LOGS if (path / log).is_file()]
    if logs:
        return _log(logs[0], name)
    return _log(checkpoints[-1], name) if checkpoints else None


def _log(path: Path, name: str | None = None) -> Found:
    from scalerl.record.sniff import read_file

    return Found(name or path.stem, path, False, lambda wanted: read_file(path, wanted))


def _is_plain_folder(item: Path) -> bool:
    """No hidden folder, and no link: W&B's latest-run points to a run that is there anyway."""
    return item.is_dir() and not item.is_symlink() and not item.name.startswith(".")


def _is_log(item: Path) -> bool:
    """A loose file that may be a run; W&B's own debug logs aren't."""
    return item.is_file() and item.suffix in _SUFFIXES and not item.name.startswith((".", "debug"))


def _number(name: str) -> int:
    match = re.search(r"(\d{1,15})$", name)
    return int(match[1]) if match else -1


def _written(path: Path) -> int:
    """The time in an event file's name, which orders the files of a run that was restarted."""
    match = re.search(r"tfevents\.(\d{1,15})", path.name)
    return int(match[1]) if match else 0
