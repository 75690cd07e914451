"""Loading a run for a verb: a choice that is the user's is asked at a terminal, and exits 2 elsewhere."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from scalerl.record.run import Run

T = TypeVar("T")
_MOST_QUESTIONS = 4


def load_asking(path: str, **options: Any) -> Run:
    """`scalerl.load`, with its questions asked at a terminal."""
    from scalerl.record.load import load

    return _asking(lambda said: load(said.pop("run", path), **said), path, options)


def load_all_asking(path: str, **options: Any) -> dict[str, Run]:
    """`load_all`, with its questions asked at a terminal."""
    from scalerl.record.load import load_all

    return _asking(lambda said: load_all(path, **said), path, options)


def _asking(load: Callable[[dict[str, Any]], T], path: str, options: dict[str, Any]) -> T:
    from scalerl.record.choice import ChoiceNeeded

    said = {name: value for name, value in options.items() if value is not None}
    for _ in range(_MOST_QUESTIONS):
        try:
            with _plain_warnings():
                return load(dict(said))
        except ChoiceNeeded as question:
            if not (sys.stdin.isatty() and sys.stderr.isatty()):
                raise
            answer = _ask(question)
            said[question.option] = f"{path}#{answer}" if question.option == "run" else answer
    with _plain_warnings():
        return load(dict(said))


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Show a reader's warnings as lines on stderr, without the place in the code."""
    import typer

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        typer.echo(f"scalerl: warning: {message}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def _ask(question: Any) -> str:
    import typer

    typer.echo(str(question), err=True)
    shown = "/".join(question.choices[:8]) + ("/..." if len(question.choices) > 8 else "")
    return str(typer.prompt(f"{question.option} [{shown}]", err=True)).strip()


def name_of(path: str) -> str:
    """What to call a path in a title."""
    return Path(path).name or path
