"""W&B runs: a `.wandb` file (LevelDB framing, the wandb package's protobuf), and runs by path."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scalerl.errors import UserError
from scalerl.record.columns import Columns, Log, Wanted, flatten
from scalerl.record.readers.json_lines import parse_object

MAGIC = b":W&B"
_BLOCK = 32768
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


def read_wandb_file(path: Path, wanted: Wanted) -> Log:
    """The history of a local W&B run; UserError without the wandb package."""
    try:
        from wandb.proto import wandb_internal_pb2
    except ImportError:
        raise UserError(
            f"{path}: .wandb files need the wandb package (pip install wandb), or give output.log"
        ) from None
    log = Log("W&B local run")
    columns = log.one(wanted)
    for data in _records(path, log):
        record = wandb_internal_pb2.Record()
        try:
            record.ParseFromString(data)
        except Exception as error:  # protobuf's DecodeError has no public home in all its versions
            raise UserError(
                f"{path}: a damaged record ({error}); sync the run and export it instead"
            ) from None
        if record.WhichOneof("record_type") == "history":
            _history(record.history, columns)
    if not columns.rows:
        raise UserError(f"{path}: this W&B run logged no history; nothing to fit")
    return log


def _history(history: Any, columns: Columns) -> None:
    row: list[tuple[str, Any]] = []
    for item in history.item:
        name = item.key or "/".join(item.nested_key)
        if columns.wants(name):
            value = parse_object('{"v":' + item.value_json + "}") if item.value_json else None
            row += [(name, value["v"])] if value and not isinstance(value.get("v"), dict) else []
    if row:
        columns.add(row)


def _records(path: Path, log: Log) -> Iterator[bytes]:
    """Records of LevelDB's log format after W&B's 7-byte head: 32 kB blocks, records split over them."""
    with open(path, "rb") as file:
        if file.read(7)[:4] != MAGIC:
            raise UserError(f"{path}: not a .wandb file")
        pending = b""
        while head := file.read(min(7, _BLOCK - file.tell() % _BLOCK)):
            if len(head) < 7 or not any(head):
                continue
            _, length, kind = struct.unpack("<IHB", head)
            if kind not in (_FULL, _FIRST, _MIDDLE, _LAST) or length > _BLOCK:
                raise UserError(
                    f"{path}: damaged at byte {file.tell() - 7}; sync the run and export it instead"
                )
            data = file.read(length)
            if len(data) < length:
                log.drop("last record torn by a crash")
                return
            pending = data if kind in (_FULL, _FIRST) else pending + data
            if kind in (_FULL, _LAST):
                yield pending
                pending = b""


def read_wandb_path(path: str, wanted: Wanted) -> Log:
    """A run by `wandb:entity/project/run`, through the wandb package, when the user is logged in."""
    try:
        import wandb
    except ImportError:
        raise UserError(f"{path}: W&B runs by path need the wandb package: pip install wandb") from None
    name = path.removeprefix("wandb:").strip("/")
    if name.count("/") != 2:
        raise UserError(f"{path}: say wandb:entity/project/run")
    log = Log("W&B run by path")
    columns = log.one(wanted)
    try:
        for row in wandb.Api().run(name).scan_history():
            columns.add(flatten(row))
    except Exception as error:  # the client raises requests', its own and usage errors alike
        text = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(f"{path}: W&B doesn't give it ({text}); are you logged in (wandb login)?") from None
    if not columns.rows:
        raise UserError(f"{path}: this W&B run logged no history; nothing to fit")
    return log
