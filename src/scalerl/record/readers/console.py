"""Console logs of any trainer: each line is offered to every dialect; the one that found rows is taken."""

from __future__ import annotations

from scalerl.errors import UserError
from scalerl.record.column import Floats
from scalerl.record.columns import Budget, Columns, Log, Wanted, as_number
from scalerl.record.fields import RATES, role_of
from scalerl.record.readers.dict_console import DictConsole
from scalerl.record.readers.nemo_console import NemoConsole
from scalerl.record.readers.pairs_console import PairsConsole
from scalerl.record.readers.shapes import Pairs, read_by_shape
from scalerl.record.readers.verl_console import VerlConsole
from scalerl.record.text import Head, ends_whole, iter_blocks


class Console:
    """All dialects, as one reader of lines."""

    def __init__(self, wanted: Wanted, budget: Budget) -> None:
        self._wanted = wanted
        self.verl = VerlConsole(Columns(wanted, budget))
        self.dicts = DictConsole(Columns(wanted, budget), wanted.y)
        self.nemo = NemoConsole(Columns(wanted, budget))
        self.pairs = PairsConsole(Columns(wanted, budget))

    def feed(self, line: str) -> None:
        """Offer the line to the dialects that could use it."""
        if (self.verl.held or "step:" in line) and self.verl.feed(line):
            return
        if ("{'" in line or " [" in line) and self.dicts.feed(line):
            return
        if ":" in line or "=" in line:
            self.nemo.feed(line)
            self.pairs.feed(line)

    def feed_block(self, block: str) -> None:
        """Take the next lines. Once NeMo-RL's are known, only verl's lines and dicts matter besides."""
        nemo = self.nemo.columns.rows and _has_rate(self.nemo.columns, self._wanted)
        if nemo and not self.verl.held and "step:" not in block and "{'" not in block:
            self.nemo.feed_block(block)
        else:
            for line in block.split("\n"):
                self.feed(line)

    def _dialect(self, line: str) -> VerlConsole | DictConsole | PairsConsole | None:
        """The one dialect that the line is of, for itself; None where what is around it may matter."""
        if self.verl.parse(line) is not None:
            return self.verl
        if " - " in line or self.nemo.telling(line):
            return None
        return self.dicts if self.dicts.parse(line) is not None else self.pairs

    def probe(self, line: str) -> Pairs | None:
        """What the line alone would store."""
        dialect = self._dialect(line)
        pairs = None if dialect is None else dialect.parse(line)
        if pairs is None:
            return None
        found = [(name, as_number(value, name)) for name, value in pairs]
        return [(name, value) for name, value in found if value is not None]

    def take(self, example: str, names: list[str], values: list[Floats]) -> None:
        """Take rows of lines like the example."""
        dialect = self._dialect(example)
        assert dialect is not None
        self.verl.close()
        dialect.take(names, values)


def read_console(head: Head, wanted: Wanted) -> Log:
    """Read a console log; UserError where no line of it holds metrics."""
    budget = Budget()
    console = Console(wanted, budget)
    read_by_shape(iter_blocks(head.path, head.encoding), console)
    whole = ends_whole(head.path)
    for dialect in (console.verl, console.nemo, console.dicts, console.pairs):
        if dialect.finish(whole) and _has_rate(dialect.columns, wanted):
            log = Log(dialect.name, {"": dialect.columns}, budget=budget)
            if dialect is console.verl and dialect.joined:
                log.warnings.append(f"{dialect.joined} lines that were broken in the middle have been joined")
            if dialect is console.dicts:
                log.drop("line torn before its end", dialect.torn)
                log.guesses += dialect.settle_steps()
            return log
    raise UserError(
        f"{head.path}: no line with a step and a pass rate or reward in this log "
        "(known: verl, TRL, NeMo-RL, slime, lines like 'step 3 reward=0.25'; a table's columns are parted by "
        "commas, semicolons, tabs or bars); nothing to fit"
    )


def _has_rate(columns: Columns, wanted: Wanted) -> bool:
    named = wanted.y is not None and columns.count(wanted.y) > 0
    return named or any(role_of(name) in RATES for name in columns.stored())
