"""How much of everything, and the optimizer: what a recipe needs besides its axes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from scalerl.recipe.axes import Option

Count = Annotated[int, Field(ge=1)]


class Sizes(Option):
    """Prompts, generations and lengths; the defaults are the source's 8B setting (method.md, section 4)."""

    prompts_per_step: Count = 48
    """Prompts whose groups make one trainer step."""
    generations_per_prompt: Annotated[int, Field(ge=2)] = 16
    """Completions of each prompt."""
    max_prompt_tokens: Count = 2048
    """Longer prompts leave the training set."""
    max_thinking_tokens: Count = 12288
    """Most tokens of thinking in a completion."""
    max_answer_tokens: Count = 2048
    """Most tokens of answer, after the thinking."""


class Optimizer(Option):
    """AdamW at a constant learning rate after a linear warm-up.

    The source gives no betas and no clipping of the gradient's norm: 0.9 / 0.95 and 1.0 are our reading.
    """

    learning_rate: Annotated[float, Field(gt=0)] = 5e-7
    """Constant after the warm-up."""
    warmup_steps: Annotated[int, Field(ge=0)] = 100
    """Trainer steps of linear warm-up."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Decoupled weight decay."""
    betas: tuple[Annotated[float, Field(ge=0, lt=1)], Annotated[float, Field(ge=0, lt=1)]] = (0.9, 0.95)
    """Decay rates of the two moments."""
    eps: Annotated[float, Field(gt=0)] = 1e-15
    """Added to the root of the second moment."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    """The gradient's norm is clipped here; infinity: never."""
