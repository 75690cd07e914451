"""TensorBoard event files: one, or all that restarts left in a folder; needs the tensorboard package."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from scalerl.errors import UserError
from scalerl.record.columns import Log, Wanted

_LARGEST_EVENT = 64 << 20
WALL_TIME = "wall time"


def is_event_file(start: bytes) -> bool:
    """Whether bytes begin like an event file: a framed record that says 'brain.Event:'."""
    return len(start) >= 24 and b"brain.Event:" in start[12:64] and struct.unpack("<Q", start[:8])[0] < 256


def read_events(paths: list[Path], wanted: Wanted) -> Log:
    """Scalars of the files, in their order in time; each event's wall time becomes the field 'wall time'."""
    try:
        from tensorboard.compat.proto import event_pb2
    except ImportError:
        raise UserError(
            f"{paths[0]}: event files need the tensorboard package: pip install tensorboard"
        ) from None
    log = Log("TensorBoard events")
    columns = log.one(wanted)
    for path in paths:
        row: list[tuple[str, Any]] = []
        at: tuple[int, float] | None = None
        for record in _records(path, log):
            try:
                event = event_pb2.Event.FromString(record)
            except Exception as error:  # protobuf's DecodeError has no public home in all its versions
                raise UserError(f"{path}: a damaged event ({error}); copy the file again") from None
            scalars = [(v.tag, s) for v in event.summary.value if (s := _scalar(v)) is not None]
            if not scalars:
                continue
            if at is not None and event.step != at[0]:
                columns.add([("step", at[0]), (WALL_TIME, at[1]), *row])
                row = []
            at = (event.step, event.wall_time)
            row += scalars
        if at is not None:
            columns.add([("step", at[0]), (WALL_TIME, at[1]), *row])
    if not columns.rows:
        raise UserError(f"{paths[0]}: no scalar in {len(paths)} event file(s); nothing to fit")
    if len(paths) > 1:
        log.guesses.append(f"{len(paths)} event files read as one run, in order of time")
    return log


def _records(path: Path, log: Log) -> Iterator[bytes]:
    """Framed records: length, its checksum, data, its checksum. A record cut by a crash ends the file."""
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    with open(path, "rb") as file:
        while len(head := file.read(12)) == 12:
            length, check = struct.unpack("<QI", head)
            if length > _LARGEST_EVENT or masked_crc32c(head[:8]) != check:
                raise UserError(f"{path}: damaged at byte {file.tell() - 12}; copy the file again")
            data = file.read(length + 4)
            if len(data) < length + 4:
                log.drop("last event torn by a crash")
                return
            yield data[:-4]
        if head:
            log.drop("last event torn by a crash")


def _scalar(value: Any) -> float | None:
    """The number of a scalar summary, old style or as a tensor of one element."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return float(value.simple_value)
    if kind != "tensor":
        return None
    tensor = value.tensor
    if math.prod(d.size for d in tensor.tensor_shape.dim) != 1:
        return None
    for numbers in (tensor.float_val, tensor.double_val, tensor.int_val, tensor.int64_val):
        if len(numbers) == 1:
            return float(numbers[0])
    widths = {4: "<f", 8: "<d"}
    packed = tensor.tensor_content
    return (
        struct.unpack(widths[len(packed)], packed)[0]
        if tensor.dtype in (1, 2) and len(packed) in widths
        else None
    )
