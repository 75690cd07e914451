"""A YAML, TOML or JSON file that holds a mapping of fields."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import yaml

from scalerl.errors import UserError


def read_mapping(path: Path) -> dict[str, Any]:
    """Return the file's mapping; UserError that names the file for anything else."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: can't be read: {getattr(error, 'strerror', None) or error}") from None
    try:
        data = tomllib.loads(text) if path.suffix == ".toml" else yaml.safe_load(text)
    except (yaml.YAMLError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{path}: not readable: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise UserError(f"{path}: a mapping of fields is wanted, found {type(data).__name__}")
    return data
