"""The one exception that a user's mistake becomes."""

from __future__ import annotations


class UserError(Exception):
    """A mistake that the user can mend: the command line prints it as one line and exits with status 2.

    The message names the file, the field and the value, and says what to do.
    """


class NoGoodAnswer(Exception):  # noqa: N818 - an outcome, not a fault
    """The question was well put but the data has no good answer: exit status 1."""
