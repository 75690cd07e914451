"""A choice that only the user can make: asked at a terminal, elsewhere an error that names the flag."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from scalerl.errors import UserError


class ChoiceNeeded(UserError):  # noqa: N818 - a question, not a fault
    """A UserError that one option settles: `option` is a keyword of `load`, `choices` what it may be."""

    def __init__(self, message: str, option: str, choices: tuple[str, ...]) -> None:
        super().__init__(message)
        self.option = option
        self.choices = choices


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Keep every UserError on one line: field and run names of a log may hold anything."""
    try:
        yield
    except UserError as error:
        error.args = (one_line(str(error)),)
        raise


def one_line(text: str) -> str:
    """The text with line ends and other control characters shown as escapes."""
    return "".join(c if c.isprintable() or c == " " else c.encode("unicode_escape").decode() for c in text)


def listing(names: tuple[str, ...] | list[str], most: int = 6) -> str:
    """Names in one line, cut after `most`."""
    shown = ", ".join(names[:most])
    return shown + (f", ... ({len(names)} in all)" if len(names) > most else "")
