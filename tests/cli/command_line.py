"""The command line as a user types it, in this process: (exit status, output, errors)."""

from __future__ import annotations

import sys

import pytest

from scalerl.cli import main as cli


def scalerl(monkeypatch, capsys, *arguments: object) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["scalerl", *map(str, arguments)])
    cli.app.registered_commands.clear()
    cli.app.registered_groups.clear()
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out = capsys.readouterr()
    return int(ended.value.code or 0), out.out, out.err
