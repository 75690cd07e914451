"""Checkpoints: whole or not there. Written beside their place, synced, renamed; checked when read."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from scalerl.loop.state_file import load_state, save_state

MANIFEST = "manifest.json"
_NAME = re.compile(r"step-(\d{6,})")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A complete checkpoint: `path` is also a plain Hugging Face model folder."""

    step: int
    path: Path

    def state(self) -> dict[str, Any]:
        """Return the loop's state."""
        return load_state(self.path)


def write_checkpoint(
    folder: Path,
    step: int,
    state: Mapping[str, Any],
    write_model: Callable[[Path], None],
    *,
    keep_last: int,
    keep_every: int | None,
) -> Checkpoint:
    """Write `folder/step-NNNNNN`, then delete old ones but the last few and each `keep_every`-th step's."""
    folder.mkdir(parents=True, exist_ok=True)
    final = folder / f"step-{step:06d}"
    temporary = folder / f".writing-{final.name}"
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir()
    write_model(temporary)
    save_state(temporary, state)
    files = sorted(path for path in temporary.rglob("*") if path.is_file())
    manifest = {str(path.relative_to(temporary)): _digest(path) for path in files}
    (temporary / MANIFEST).write_bytes(orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
    for path in [*files, temporary / MANIFEST]:
        _sync(path)
    _sync(temporary)
    shutil.rmtree(final, ignore_errors=True)
    temporary.rename(final)
    _sync(folder)
    _delete_old(folder, keep_last, keep_every)
    return Checkpoint(step, final)


def latest_checkpoint(folder: Path) -> Checkpoint | None:
    """Return the newest checkpoint that is as it was written; others are skipped with a warning."""
    for step, path in sorted(_checkpoints(folder), reverse=True):
        if fault := _fault(path):
            warnings.warn(f"checkpoint {path} skipped: {fault}", stacklevel=2)
            continue
        return Checkpoint(step, path)
    return None


def _checkpoints(folder: Path) -> list[tuple[int, Path]]:
    if not folder.is_dir():
        return []
    named = ((_NAME.fullmatch(path.name), path) for path in folder.iterdir() if path.is_dir())
    return [(int(match.group(1)), path) for match, path in named if match]


def _fault(path: Path) -> str | None:
    manifest_path = path / MANIFEST
    if not manifest_path.is_file():
        return f"no {MANIFEST}"
    try:
        manifest = orjson.loads(manifest_path.read_bytes())
    except orjson.JSONDecodeError:
        return f"{MANIFEST} is torn"
    for name, digest in manifest.items():
        if not (path / name).is_file():
            return f"{name} is missing"
        if _digest(path / name) != digest:
            return f"{name} isn't what was written"
    return None


def _delete_old(folder: Path, keep_last: int, keep_every: int | None) -> None:
    ordered = sorted(_checkpoints(folder))
    for step, path in ordered[: max(0, len(ordered) - keep_last)]:
        if keep_every is None or step % keep_every:
            shutil.rmtree(path)


def _digest(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
