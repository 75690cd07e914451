"""`scalerl eval`: pass rates of a checkpoint, or of all checkpoints of a run, on named sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from scalerl.cli.eval_points import Point

SETS = Annotated[
    list[str],
    typer.Option(
        "--on", help="Sets: names (aime24,math500), NAME:FILE, math:FILE, code:FILE, reasoning_gym:TASK."
    ),
]


def eval(
    target: Annotated[
        Path, typer.Argument(help="A Hugging Face model folder, or a run (its start and all checkpoints).")
    ],
    on: SETS,
    samples: Annotated[int, typer.Option(min=1, help="Completions of each prompt.")] = 16,
    prompts: Annotated[
        int | None, typer.Option(min=1, help="Only the first so many prompts of each set.")
    ] = None,
    max_thinking_tokens: Annotated[int, typer.Option(min=1, help="Thinking is interrupted here.")] = 4096,
    max_answer_tokens: Annotated[int, typer.Option(min=1, help="Tokens after the thinking.")] = 1024,
    phrase: Annotated[
        str | None, typer.Option(help="Appended to overlong thinking; none: the completion is truncated.")
    ] = None,
    temperature: Annotated[float, typer.Option(min=0, help="0: the likeliest token.")] = 1.0,
    top_p: Annotated[float, typer.Option(help="Nucleus sampling.")] = 1.0,
    seed: Annotated[int, typer.Option(min=0, help="Of the sampling.")] = 0,
    slots: Annotated[int, typer.Option(min=1, help="Completions decoded together.")] = 64,
    device: Annotated[str, typer.Option(help="cpu, cuda or cuda:0.")] = "cpu",
    dtype: Annotated[str, typer.Option(help="float32 or bfloat16.")] = "float32",
    thinking: Annotated[
        str | None, typer.Option(help="Open <think> in the prompt: auto (the default), open or off.")
    ] = None,
    instruction: Annotated[
        str | None, typer.Option(help="Appended to every problem instead of the usual; '' for nothing.")
    ] = None,
    unsafe_no_sandbox: Annotated[
        bool, typer.Option("--unsafe-no-sandbox", help="Run model-written code without bubblewrap.")
    ] = False,
    record: Annotated[
        bool, typer.Option("--record", help="Append to the run's evals.jsonl: `scalerl fit RUN --set SET`.")
    ] = False,
    show: Annotated[int, typer.Option(min=0, help="Print so many completions of each set.")] = 0,
    out: Annotated[
        Path | None, typer.Option("--out", help="Also write the JSON, per-prompt counts included.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON with stable names.")] = False,
) -> None:
    """Evaluate a checkpoint, or every checkpoint of a run, on one or several sets.

    Example: scalerl eval runs/a/checkpoints/step-000100 --on math500:math500.jsonl,gsm8k --samples 16
    """
    import orjson

    from scalerl.cli import eval_points
    from scalerl.cli.eval_print import print_completions, print_points
    from scalerl.cli.eval_sampling import SamplingPlan

    plan = SamplingPlan(
        samples,
        prompts,
        max_thinking_tokens,
        max_answer_tokens,
        phrase,
        temperature,
        top_p,
        seed,
        slots,
        device,
        dtype,
    )
    sets = eval_points.parse_sets(
        on, thinking=thinking, instruction=instruction, unsafe_no_sandbox=unsafe_no_sandbox
    )
    checkpoints = eval_points.find_checkpoints(target)
    recorder = eval_points.Recorder(target) if record else None
    if recorder is not None:
        recorder.check(sets)
    points: list[Point] = []
    for checkpoint in checkpoints:
        for result in eval_points.evaluate_checkpoint(checkpoint, sets, plan):
            points.append(result)
            if recorder is not None:
                recorder.write(result)
            if not as_json:
                print_completions(result, show)
    rows: list[dict[str, Any]] = [point.as_dict() for point in points]
    if out is not None:
        out.write_bytes(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
    if as_json:
        typer.echo(orjson.dumps(rows).decode())
    else:
        print_points(points)
