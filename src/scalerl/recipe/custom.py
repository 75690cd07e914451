"""Functions of the user's in Python files: hashed when a recipe is resolved, loaded when a run starts."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scalerl.errors import UserError
from scalerl.recipe.axes import UserFunction
from scalerl.recipe.recipe import OPTION_FIELDS, Recipe


def resolve_user_files(recipe: Recipe, folder: Path) -> Recipe:
    """Return the recipe with user functions' paths absolute (relative to `folder`) and their files hashed.

    A hash that is already there (a run being resumed) must still be right. Nothing is imported. Raises
    UserError.
    """
    resolved: dict[str, Any] = {}
    for field in OPTION_FIELDS:
        option = getattr(recipe, field)
        if isinstance(option, UserFunction):
            file, _, function = option.path.rpartition(":")
            path = (folder / file).resolve()
            digest = _checked_hash(path, option, f"field {field}: ")
            resolved[field] = option.model_copy(update={"path": f"{path}:{function}", "sha256": digest})
    return recipe.replace(**resolved) if resolved else recipe


def load_function(option: UserFunction) -> Callable[..., Any]:
    """Import the user's file and return its function.

    Raises UserError where file or function is missing, or the file isn't the one that was hashed.
    """
    file, _, name = option.path.rpartition(":")
    digest = _checked_hash(Path(file), option)
    module_name = f"scalerl_user_file_{digest[:16]}"
    if module_name not in sys.modules:
        spec = importlib.util.spec_from_file_location(module_name, file)
        if spec is None or spec.loader is None:
            raise UserError(f"{file}: not a Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module  # where dataclasses and pickle look it up
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            del sys.modules[module_name]
            raise UserError(f"{file}: fails on import: {type(error).__name__}: {error}") from error
    function = getattr(sys.modules[module_name], name, None)
    if not callable(function):
        raise UserError(f"{file}: has no function {name!r}: define it, or mend the recipe's {option.path!r}")
    return function


def _checked_hash(path: Path, option: UserFunction, field: str = "") -> str:
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"{path}: {field}can't read the file: {error.strerror}") from None
    if option.sha256 not in (None, digest):
        raise UserError(
            f"{path}: {field}the file has changed since the recipe was resolved "
            f"(sha256 {digest[:12]}, expected {str(option.sha256)[:12]}): restore it, or rename it"
        )
    return digest
