"""A lean forward pass over the weights of a Hugging Face Llama, Qwen2 or Qwen3 model.

One block serves training, prefill and decoding: tokens come as one flat stream [T, D], and what differs
between the three, attention, is a function that the caller passes in. Parity with Hugging Face is held by
tests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor

from scalerl.errors import UserError
from scalerl.policy.differentiable import rms_norm, rotate, swiglu

SUPPORTED = ("LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM")
_ROPE_TYPES = ("default", "linear", "llama3", "yarn")  # their tables don't depend on the sequence's length

# (layer, queries [T, H, E], keys [T, K, E], values [T, K, E]) -> [T, H * E]
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, slots=True)
class Architecture:
    """Sizes and constants of the model: H query heads and K key heads of E dimensions each."""

    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    inverse_frequencies: Tensor  # float32 [E / 2]
    rope_scaling: float

    @property
    def attention_scale(self) -> float:
        """What scores are multiplied by: E^-1/2."""
        return self.head_dim**-0.5


@dataclass(frozen=True, slots=True)
class Projection:
    """One or several linear maps of the same input; fused into a single matrix, or left as they are."""

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...] | None
    sizes: tuple[int, ...]

    def __call__(self, x: Tensor) -> tuple[Tensor, ...]:
        """x [T, D] -> one [T, size] for each of `sizes`."""
        biases = self.biases or (None,) * len(self.weights)
        outputs = tuple(F.linear(x, w, b) for w, b in zip(self.weights, biases, strict=True))
        return outputs if len(outputs) == len(self.sizes) else outputs[0].split(self.sizes, dim=-1)

    def joined(self, x: Tensor) -> Tensor:
        """x [T, D] -> [T, sum of the sizes], of fused maps."""
        return F.linear(x, self.weights[0], self.biases[0] if self.biases else None)

    def added_to(self, residual: Tensor, x: Tensor) -> Tensor:
        """residual [T, size] + the map of x [T, D], of a single map."""
        if self.biases is not None:
            return residual + self(x)[0]
        return torch.addmm(residual, x, self.weights[0].t())


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One transformer block's weights."""

    attention_norm: Tensor
    qkv: Projection
    query_norm: Tensor | None
    key_norm: Tensor | None
    output: Projection
    mlp_norm: Tensor
    gate_up: Projection
    down: Projection


@dataclass(frozen=True, slots=True)
class Weights:
    """All weights; `head` is the embedding itself where they are tied."""

    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor
    head: Tensor


def architecture_of(model: Any) -> Architecture:
    """Read sizes and constants from a Hugging Face model; UserError for one that this pass can't run."""
    config = model.config
    kind = type(model).__name__
    if kind not in SUPPORTED:
        raise UserError(
            f"architecture {kind} isn't supported by the embedded engine (it has {', '.join(SUPPORTED)}); "
            "use the vllm engine for it"
        )
    rope_type = model.model.rotary_emb.rope_type
    if rope_type not in _ROPE_TYPES:
        raise UserError(
            f"rope type {rope_type!r} isn't supported by the embedded engine; use the vllm engine"
        )
    if getattr(config, "use_sliding_window", False) or config.hidden_act != "silu":
        raise UserError("sliding windows and activations other than silu need the vllm engine")
    return Architecture(
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        kv_heads=config.num_key_value_heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        norm_eps=config.rms_norm_eps,
        inverse_frequencies=model.model.rotary_emb.inv_freq.detach().float(),
        rope_scaling=float(model.model.rotary_emb.attention_scaling),
    )


def weights_of(architecture: Architecture, named: Mapping[str, Tensor], *, copied: bool) -> Weights:
    """Arrange named Hugging Face tensors for the pass.

    copied=False: the very tensors, nothing copied, gradients flow to them (training). copied=True: detached
    copies with q/k/v and gate/up fused (an engine's own weights, which stay as they are while the trainer
    goes on). UserError when a tensor is missing.
    """
    return _Arranger(named, copied).weights(architecture)


class _Arranger:
    """Finds tensors by their Hugging Face names and groups them."""

    def __init__(self, named: Mapping[str, Tensor], copied: bool) -> None:
        self.named = named
        self.copied = copied

    def weights(self, architecture: Architecture) -> Weights:
        embedding = self.one("model.embed_tokens.weight")
        tied = "lm_head.weight" not in self.named
        return Weights(
            embedding=embedding,
            layers=tuple(self.layer(f"model.layers.{index}.") for index in range(architecture.layers)),
            final_norm=self.one("model.norm.weight"),
            head=embedding if tied else self.one("lm_head.weight"),
        )

    def layer(self, prefix: str) -> LayerWeights:
        attention, mlp = prefix + "self_attn.", prefix + "mlp."
        return LayerWeights(
            attention_norm=self.one(prefix + "input_layernorm.weight"),
            qkv=self.projection(attention + "q_proj", attention + "k_proj", attention + "v_proj"),
            query_norm=self.maybe(attention + "q_norm.weight"),
            key_norm=self.maybe(attention + "k_norm.weight"),
            output=self.projection(attention + "o_proj"),
            mlp_norm=self.one(prefix + "post_attention_layernorm.weight"),
            gate_up=self.projection(mlp + "gate_proj", mlp + "up_proj"),
            down=self.projection(mlp + "down_proj"),
        )

    def one(self, name: str) -> Tensor:
        if name not in self.named:
            raise UserError(
                f"weights: {name} is missing; give every tensor of the model under its Hugging Face name"
            )
        tensor = self.named[name]
        return tensor.detach().clone() if self.copied else tensor

    def maybe(self, name: str) -> Tensor | None:
        return self.one(name) if name in self.named else None

    def projection(self, *names: str) -> Projection:
        weights = tuple(self.one(name + ".weight") for name in names)
        biases = tuple(b for name in names if (b := self.maybe(name + ".bias")) is not None)
        sizes = tuple(weight.shape[0] for weight in weights)
        if self.copied:
            weights = (torch.cat(weights),)
            biases = (torch.cat(biases),) if biases else ()
        return Projection(weights, biases or None, sizes)


def rope_tables(architecture: Architecture, length: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and signed sines of positions 0..length-1, each [length, E], of `like`'s type and device.

    The first half of the sines is negated, so that rotating is x * cos + (x with its halves swapped) * sin.
    """
    positions = torch.arange(length, device=like.device, dtype=torch.float32)
    angles = torch.outer(positions, architecture.inverse_frequencies.to(like.device))
    cos, sin = angles.cos() * architecture.rope_scaling, angles.sin() * architecture.rope_scaling
    return torch.cat((cos, cos), dim=-1).to(like.dtype), torch.cat((-sin, sin), dim=-1).to(like.dtype)


def hidden_states(
    architecture: Architecture, weights: Weights, tokens: Tensor, cos: Tensor, sin: Tensor, attend: Attend
) -> Tensor:
    """Final, normed hidden states [T, D] of a flat stream of tokens [T].

    cos, sin: the rope tables' rows at the tokens' positions, [T, E].
    """
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    x = F.embedding(tokens, weights.embedding)
    for index, layer in enumerate(weights.layers):
        x = _block(architecture, layer, x, cos, sin, index, attend)
    return rms_norm(x, weights.final_norm, architecture.norm_eps)


def _block(
    architecture: Architecture,
    layer: LayerWeights,
    x: Tensor,
    cos: Tensor,
    sin: Tensor,
    index: int,
    attend: Attend,
) -> Tensor:
    """One pre-norm transformer block on a flat stream x [T, D]."""
    eps = architecture.norm_eps
    heads = (-1, architecture.head_dim)
    query, key, value = (
        part.unflatten(-1, heads) for part in layer.qkv(rms_norm(x, layer.attention_norm, eps))
    )
    if layer.query_norm is not None and layer.key_norm is not None:
        query, key = rms_norm(query, layer.query_norm, eps), rms_norm(key, layer.key_norm, eps)
    attended = attend(index, rotate(query, cos, sin), rotate(key, cos, sin), value)
    x = layer.output.added_to(x, attended)
    gate, up = layer.gate_up(rms_norm(x, layer.mlp_norm, eps))
    return layer.down.added_to(x, swiglu(gate, up))
