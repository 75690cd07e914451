"""State trees on disk without pickle: structure in JSON, tensors in safetensors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from safetensors.torch import load_file, save_file

JSON_NAME, TENSORS_NAME = "state.json", "state.safetensors"
_MARK = "__tensor__"
_PLAIN = frozenset({type(None), bool, int, float, str})


def save_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Write a tree of dicts (string keys), lists, tuples, numbers, strings, None, tensors and arrays.

    Tuples come back as lists. Raises TypeError for anything else: it couldn't be restored exactly.
    """
    tensors: dict[str, torch.Tensor] = {}
    tree = _encode(state, "", tensors)
    save_file(tensors, folder / TENSORS_NAME)
    (folder / JSON_NAME).write_bytes(orjson.dumps(tree))


def load_state(folder: Path) -> dict[str, Any]:
    """Read what `save_state` wrote, bit for bit."""
    tensors = load_file(folder / TENSORS_NAME)
    return _decode(orjson.loads((folder / JSON_NAME).read_bytes()), tensors)


def _encode(value: Any, path: str, tensors: dict[str, torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        tensors[path] = value.detach().cpu().clone().contiguous()
        return {_MARK: path}
    if isinstance(value, np.ndarray):
        tensors[path] = torch.from_numpy(value.copy())
        return {_MARK: path, "numpy": True}
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"state at {path!r}: keys must be strings")
        return {key: _encode(item, f"{path}/{key}", tensors) for key, item in value.items()}
    if isinstance(value, list | tuple):
        if all(type(item) in _PLAIN for item in value):  # most lists are: thousands of token and prompt ids
            return list(value)
        return [_encode(item, f"{path}/{index}", tensors) for index, item in enumerate(value)]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"state at {path!r}: can't be saved: {type(value).__name__}")


def _decode(value: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if isinstance(value, dict):
        if _MARK in value:
            tensor = tensors[value[_MARK]]
            return tensor.numpy() if value.get("numpy") else tensor
        return {key: _decode(item, tensors) for key, item in value.items()}
    if isinstance(value, list):
        return [_decode(item, tensors) for item in value]
    return value
