"""The policy: a Hugging Face causal language model, loaded, made new or saved as a plain folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from scalerl.errors import UserError

DTYPES: dict[str, torch.dtype] = {
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float64": torch.float64,
}


@dataclass(frozen=True, slots=True)
class Policy:
    """A causal language model and the folder that holds its tokenizer (None for one made new)."""

    model: Any  # transformers.PreTrainedModel; transformers has no types for it
    path: Path | None = None

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return next(iter(self.parameters().values())).device

    @property
    def dtype(self) -> torch.dtype:
        """The parameters' type."""
        return next(iter(self.parameters().values())).dtype

    def parameters(self) -> dict[str, nn.Parameter]:
        """Name to parameter; a tied head appears once, as the embedding."""
        return dict(self.model.named_parameters())

    def weights(self) -> dict[str, Tensor]:
        """Name to tensor, detached: what an engine's `load_weights` takes. Shares memory with the model."""
        return {name: parameter.detach() for name, parameter in self.model.named_parameters()}

    def parameters_without_embeddings(self) -> int:
        """N of the FLOP formulas: parameters without the embedding and the head."""
        skipped = ("embed_tokens.weight", "lm_head.weight")
        return sum(p.numel() for name, p in self.parameters().items() if not name.endswith(skipped))


def dtype_named(name: str) -> torch.dtype:
    """The torch type of that name; UserError for an unknown one."""
    if name not in DTYPES:
        raise UserError(f"dtype {name!r} is unknown; choose one of {', '.join(DTYPES)}")
    return DTYPES[name]


def load_policy(
    path: str | Path, device: str | torch.device = "cpu", dtype: str | torch.dtype = torch.float32
) -> Policy:
    """Load a Hugging Face model folder (config.json and safetensors), in evaluation mode.

    UserError when the folder isn't there, holds no model, or the device doesn't exist here.
    """
    from transformers import AutoModelForCausalLM

    folder = Path(path)
    if not folder.is_dir():
        raise UserError(f"model {str(path)!r}: no such folder; give a Hugging Face model folder")
    if not (folder / "config.json").is_file():
        raise UserError(f"model {str(path)!r}: no config.json in it; give a Hugging Face model folder")
    torch_dtype = dtype_named(dtype) if isinstance(dtype, str) else dtype
    try:
        with _no_progress_bar():
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch_dtype, local_files_only=True)
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"model {str(path)!r}: can't be loaded: {_first_line(error)}") from error
    return Policy(_placed(model, device), folder)


def new_policy(
    config: Mapping[str, Any],
    seed: int,
    device: str | torch.device = "cpu",
    dtype: str | torch.dtype = torch.float32,
) -> Policy:
    """A model with random weights, the same for the same seed.

    config: the fields of the Hugging Face config, with `model_type` ('llama' when absent; also 'qwen2',
    'qwen3'). The global random state is left as it was.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    fields = dict(config)
    model_type = fields.pop("model_type", "llama")
    fields.setdefault("use_cache", True)
    for token in ("bos_token_id", "eos_token_id", "pad_token_id"):
        fields.setdefault(token, None)
    try:
        model_config = AutoConfig.for_model(model_type, **fields)
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"model config {dict(config)}: {_first_line(error)}") from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(model_config)
    torch_dtype = dtype_named(dtype) if isinstance(dtype, str) else dtype
    return Policy(_placed(model.to(torch_dtype), device))


def save_policy(policy: Policy, path: str | Path) -> None:
    """Write config.json and model.safetensors; the tokenizer's files are the caller's to copy."""
    Path(path).mkdir(parents=True, exist_ok=True)
    with _no_progress_bar():
        policy.model.save_pretrained(path, safe_serialization=True)


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """Keep transformers from drawing its own bar for what takes a moment."""
    from transformers.utils import logging

    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()


def _placed(model: Any, device: str | torch.device) -> Any:
    try:
        return model.to(device).eval()
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"device {str(device)!r} can't be used here: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0]
