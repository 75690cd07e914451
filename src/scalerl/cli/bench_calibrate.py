"""`scalerl bench calibrate`: a cluster profile of this machine, into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def calibrate(
    out: Annotated[Path, typer.Option(help="Profile to write (YAML).")],
    model: Annotated[str, typer.Option(help="A Hugging Face model folder, or `quickstart`.")] = "quickstart",
    slots: Annotated[int, typer.Option(min=1, help="Completions decoded at once.")] = 64,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1 ...")] = "cpu",
    threads: Annotated[int, typer.Option(min=1, help="CPU threads.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print the profile as JSON too.")] = False,
) -> None:
    """Measure this machine and write it as a profile for `simulate` and `train --clock`.

    Example: scalerl bench calibrate --out here.yaml; scalerl simulate --profile here.yaml
    """
    import torch
    import yaml

    from scalerl.errors import UserError
    from scalerl.loop.calibrate import Load, calibrate
    from scalerl.loop.setup import QUICKSTART, QUICKSTART_FOLDER
    from scalerl.policy.load import load_policy

    if out.exists():
        raise UserError(f"{out}: exists; a run may depend on it, so choose another name or delete it")
    torch.set_num_threads(threads)
    policy = load_policy(QUICKSTART_FOLDER if model == QUICKSTART else model, device)
    profile = calibrate(policy, Load(slots=slots), name=out.stem).model_dump()
    out.write_text(yaml.safe_dump(profile, sort_keys=False))
    if json:
        import orjson

        typer.echo(orjson.dumps(profile, option=orjson.OPT_INDENT_2).decode())
    else:
        typer.echo(yaml.safe_dump(profile, sort_keys=False), nl=False)
