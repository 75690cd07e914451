"""From a path on the command line to runs: one, an example that ships with the package, a folder of them."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from scalerl.errors import UserError

if TYPE_CHECKING:
    from scalerl.cli.log_options import LogOptions
    from scalerl.record.run import Run


def load_run(path: str | None, example: str | None, log: LogOptions) -> Run:
    """The run at `path`, or a shipped example; a log's questions are asked at a terminal."""
    from scalerl.cli.ask import load_asking

    if (path is None) == (example is None):
        raise UserError(f"give a run or --example NAME (one of: {', '.join(examples()) or 'none here'})")
    return load_asking(path if path is not None else str(example_path(str(example))), **log.said())


def load_runs(path: str, log: LogOptions) -> list[Run]:
    """The run at `path`, every run of a folder, or every run of a log that holds several."""
    from scalerl.cli.ask import load_all_asking

    return list(load_all_asking(path, **log.said()).values())


def load_recipes(texts: list[str], log: LogOptions) -> dict[str, list[Run]]:
    """Each recipe's runs. Of a single bare path (a folder, a log of many runs) each run is a recipe."""
    from scalerl.cli.ask import load_all_asking

    named = named_recipes(texts)
    if len(named) != 1:
        return {
            name: [run for path in paths for run in load_runs(path, log)] for name, paths in named.items()
        }
    [[path, *more]] = named.values()
    bare = not more and _split_recipe(texts[0])[0] is None
    alone = load_all_asking(path, **log.said()) if bare else {}
    if len(alone) < 2:
        raise UserError(
            f"compare: {texts[0]} is one recipe, and it takes two: scalerl compare FOLDER (of runs), "
            "FOLDER/*, or NAME=RUN[,RUN...] NAME=RUN[,RUN...]"
        )
    return {name: [run] for name, run in alone.items()}


def named_recipes(texts: Iterable[str]) -> dict[str, list[str]]:
    """Recipe names and their paths, from NAME=RUN[,RUN...] or bare paths, which are named after themselves.

    A bare path's name is as much of its end as tells it from the others. An existing path may hold '=' or
    ','. UserError for a name given twice.
    """
    split = [_split_recipe(text) for text in texts]
    bare = _shortest_ends([Path(paths[0]) for name, paths in split if name is None])
    found: dict[str, list[str]] = {}
    for name, paths in split:
        called = name if name is not None else bare[Path(paths[0])]
        if called in found:
            raise UserError(f"compare: recipe {called!r} is given twice; join its runs with commas")
        found[called] = paths
    return found


def _split_recipe(text: str) -> tuple[str | None, list[str]]:
    name, equals, paths = text.partition("=")
    if not equals or _is_place(text):
        return None, _split_paths(text)
    return name, _split_paths(paths)


def _split_paths(text: str) -> list[str]:
    return [text] if _is_place(text) else text.split(",")


def _is_place(text: str) -> bool:
    """Whether a text as a whole is a path, or a path with '#run'."""
    return Path(text).exists() or ("#" in text and Path(text.partition("#")[0]).exists())


def _shortest_ends(paths: list[Path]) -> dict[Path, str]:
    """Each path's last parts, as few for all as make them differ."""
    ends = {path: path.name or str(path) for path in paths}
    for count in range(2, max((len(path.parts) for path in paths), default=0) + 1):
        if len(set(ends.values())) == len(ends):
            break
        ends = {path: str(Path(*path.parts[-count:])) for path in paths}
    return ends


def examples() -> list[str]:
    """Names of the records that ship with the package."""
    folder = resources.files("scalerl.record") / "examples"
    return sorted(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else []


def example_path(name: str) -> Path:
    """Where a shipped record lies; UserError names the ones there are."""
    folder = resources.files("scalerl.record") / "examples" / name
    if name not in examples():
        raise UserError(f"--example {name!r} isn't here; there are: {', '.join(examples()) or 'none'}")
    return Path(str(folder))
