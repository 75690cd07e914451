"""`scalerl bench head`: memory and time of the chunked token log-probs against the plain way."""

from __future__ import annotations

from typing import Annotated

import typer


def head(
    tokens: Annotated[int, typer.Option(min=1, help="Tokens T.")] = 1024,
    vocabulary: Annotated[int, typer.Option(min=2, help="Vocabulary V.")] = 32000,
    hidden: Annotated[int, typer.Option(min=1, help="Hidden size D.")] = 1024,
    rounds: Annotated[int, typer.Option(min=0, help="Timed passes of each method; 0: memory only.")] = 3,
    json: Annotated[bool, typer.Option("--json", help="Print JSON with stable keys.")] = False,
) -> None:
    """Compare chunked token log-probs with plain log-softmax: peak memory above the inputs, CPU seconds.

    Example: scalerl bench head --tokens 4096 --vocabulary 128000 --rounds 0
    """
    from dataclasses import asdict

    from rich.console import Console
    from rich.table import Table

    from scalerl.policy.head_benchmark import Shape, compare

    result = compare(Shape(tokens, vocabulary, hidden), rounds)
    if json:
        import orjson

        typer.echo(orjson.dumps(asdict(result), option=orjson.OPT_INDENT_2).decode())
        return
    table = Table("", "plain", "chunked", "chunked / plain", box=None, pad_edge=False)
    peaks = result.plain_peak_bytes, result.chunked_peak_bytes
    table.add_row(
        "peak memory above the inputs", *(f"{p / 1e9:.2f} GB" for p in peaks), f"{peaks[1] / peaks[0]:.3f}"
    )
    if rounds:
        seconds = result.plain_seconds, result.chunked_seconds
        table.add_row("CPU seconds", *(f"{s:.2f}" for s in seconds), f"{seconds[1] / seconds[0]:.2f}")
    Console().print(table)
