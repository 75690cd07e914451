"""A cluster in figures: all that the simulated clock knows of devices, model and network."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from scalerl.errors import UserError

Figure = Field(gt=0, allow_inf_nan=False)


class Profile(BaseModel):
    """Devices, the model that they serve and train, and the links between them.

    FLOPs and bytes are this model's, not those of whatever model learns under the clock.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    description: str = ""
    generators: int = Field(ge=1)
    """Devices that decode, each with all of the model's weights."""
    trainers: int = Field(ge=1)
    """Devices that train, together as one."""
    slots_per_generator: int = Field(ge=1)
    """Completions decoded at once by one generator."""
    flops_per_second: float = Figure
    """Peak of one device, at the precision of decoding and training."""
    bytes_per_second: float = Figure
    """Memory bandwidth of one device."""
    parameters: float = Figure
    """Of the model, without embeddings."""
    bytes_per_parameter: float = Figure
    """As held by the generators and sent to them."""
    kv_bytes_per_token: float = Figure
    """Keys and values of one token, all layers."""
    decode_bandwidth_share: float = Field(gt=0, le=1)
    """Share of the bandwidth that a decode step reaches."""
    prefill_flops_share: float = Field(gt=0, le=1)
    """Share of the peak that prefill (and a compute-bound decode step) reaches."""
    training_flops_share: float = Field(gt=0, le=1)
    """Share of the peak that a trainer step reaches (MFU)."""
    transfer_bytes_per_second: float = Figure
    """Rate at which new weights reach the generators, all at once; decoding goes on meanwhile."""
    transfer_seconds: float = Field(ge=0, allow_inf_nan=False)
    """Fixed part of a weight transfer."""
    verification_seconds: float = Field(ge=0, allow_inf_nan=False)
    """From a group's last token to its rewards; on hosts of their own, any number at once."""

    @property
    def devices(self) -> int:
        """All reserved devices."""
        return self.generators + self.trainers

    def with_figure(self, field: str, value: float) -> Profile:
        """Return the profile with one figure changed, checked like a file's."""
        return Profile.model_validate({**self.model_dump(), field: value})


SHARES = ("decode_bandwidth_share", "prefill_flops_share", "training_flops_share")
"""Figures that can't exceed 1."""

FIGURES = (
    "slots_per_generator",
    "flops_per_second",
    "bytes_per_second",
    "parameters",
    "bytes_per_parameter",
    "kv_bytes_per_token",
    *SHARES,
    "transfer_bytes_per_second",
    "transfer_seconds",
    "verification_seconds",
)
"""The figures that a conclusion may be sensitive to (the split of devices is swept apart)."""


def profile_names() -> list[str]:
    """Names of the profiles that ship with the package."""
    folder = resources.files("scalerl.loop") / "profiles"
    files = [entry.name for entry in folder.iterdir()]
    return sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))


def load_profile(name_or_path: str) -> Profile:
    """Load a shipped profile by name, or a user's by path (YAML). UserError when it's missing or wrong."""
    if name_or_path in profile_names():
        text = (resources.files("scalerl.loop") / "profiles" / f"{name_or_path}.yaml").read_text()
        return parse_profile(text, name_or_path)
    path = Path(name_or_path)
    if not path.is_file():
        known = ", ".join(profile_names())
        raise UserError(f"profile {name_or_path!r}: neither a shipped profile ({known}) nor a file")
    return parse_profile(path.read_text(), str(path))


def parse_profile(text: str, where: str) -> Profile:
    """Parse a profile's YAML; `where` names it in errors."""
    try:
        data: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UserError(f"{where}: not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(data, dict):
        raise UserError(
            f"{where}: a profile is a mapping of figures; `scalerl simulate --show-profile` has one"
        )
    try:
        return Profile.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "profile"
        raise UserError(f"{where}: {field}: {first['msg']} (got {first['input']!r})") from None
