"""Functions of the user's in Python files: hashed when a recipe is resolved, loaded when a run starts."""

from __future__ import annotations

import hashlib
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scalerl.errors import UserError
from scalerl.recipe.axes import UserFunction
from scalerl.recipe.recipe import OPTION_FIELDS, Recipe


def resolve_user_files(recipe: Recipe, folder: Path) -> Recipe:
    """Return the recipe with the paths of user functions absolute (relative to `folder`) and their files
    hashed.

    A hash that is already there (a run being resumed) must still be right. Nothing is imported. Raises
    UserError.
    """
    resolved: dict[str, Any] = {}
    for field in OPTION_FIELDS:
        option = getattr(recipe, field)
        if isinstance(option, UserFunction):
            file, _, function = option.path.rpartition(":")
            path = (folder / file).resolve()
            digest = _hash(path, field)
            if option.sha256 not in (None, digest):
                raise UserError(
                    f"{path}: field {field}: the file has changed since the recipe was resolved "
                    f"(sha256 {digest[:12]}, expected {option.sha256[:12]}): restore it, or rename it"
                )
            resolved[field] = option.model_copy(update={"path": f"{path}:{function}", "sha256": digest})
    return recipe.replace(**resolved) if resolved else recipe


def load_function(option: UserFunction) -> Callable[..., Any]:
    """Run the user's file and return its function. Raises UserError where file or function is missing."""
    file, _, name = option.path.rpartition(":")
    if not Path(file).is_file():
        raise UserError(f"{file}: no such file, wanted for {name!r}: mend the recipe's {option.path!r}")
    function = runpy.run_path(file, run_name="scalerl_user_file").get(name)
    if not callable(function):
        raise UserError(f"{file}: has no function {name!r}: define it, or mend the recipe's {option.path!r}")
    return function


def _hash(path: Path, field: str) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"{path}: field {field}: can't read the file: {error.strerror}") from None
