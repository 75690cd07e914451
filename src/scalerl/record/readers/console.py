"""Console logs of any trainer: each line is offered to every dialect; the one that found rows is taken."""

from __future__ import annotations

from scalerl.errors import UserError
from scalerl.record.columns import Columns, Log, Wanted
from scalerl.record.fields import role_of
from scalerl.record.readers.dict_console import DictConsole
from scalerl.record.readers.nemo_console import NemoConsole
from scalerl.record.readers.pairs_console import PairsConsole
from scalerl.record.readers.verl_console import VerlConsole
from scalerl.record.text import Head, ends_whole, iter_lines


def read_console(head: Head, wanted: Wanted) -> Log:
    """Read a console log; UserError where no line of it holds metrics."""
    verl, dicts, nemo, pairs = (
        VerlConsole(wanted),
        DictConsole(wanted),
        NemoConsole(wanted),
        PairsConsole(wanted),
    )
    for line in iter_lines(head.path, head.encoding):
        if not (verl.feed(line) or dicts.feed(line)):
            nemo.feed(line)
            pairs.feed(line)
    whole = ends_whole(head.path)
    for dialect in (verl, nemo, dicts, pairs):
        if dialect.finish(whole) and _has_rate(dialect.columns, wanted):
            log = Log(dialect.name, {"": dialect.columns})
            if dialect is verl and verl.joined:
                log.warnings.append(f"{verl.joined} lines that were broken in the middle have been joined")
            if dialect is dicts:
                _settle_steps(dicts, log)
            return log
    raise UserError(
        f"{head.path}: no line with a step and a pass rate or reward in this log "
        "(known: verl, TRL, NeMo-RL, slime, and lines like 'step 3 reward=0.25'); nothing to fit"
    )


def _has_rate(columns: Columns, wanted: Wanted) -> bool:
    named = wanted.y is not None and columns.count(wanted.y) > 0
    return named or any(role_of(name) in ("held_out", "unstated", "train") for name in columns.stored())


def _settle_steps(dicts: DictConsole, log: Log) -> None:
    log.drop("line torn before its end", dicts.torn)
    settled = dicts.steps()
    if settled is None:
        return
    steps, how = settled
    dicts.columns.set_steps(steps)
    log.guesses.append(how)
