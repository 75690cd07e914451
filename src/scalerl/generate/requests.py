"""Group requests as plain data, for checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scalerl.generate.protocol import Budget, GroupRequest


def request_to_state(request: GroupRequest) -> dict[str, Any]:
    """The request as numbers, strings and lists."""
    return {
        "group": request.group,
        "prompt_id": request.prompt_id,
        "prompt": list(request.prompt),
        "budgets": [[budget.max_thinking_tokens, budget.max_answer_tokens] for budget in request.budgets],
    }


def request_from_state(state: Mapping[str, Any]) -> GroupRequest:
    """The request that `request_to_state` wrote."""
    budgets = tuple(Budget(thinking, answer) for thinking, answer in state["budgets"])
    return GroupRequest(state["group"], state["prompt_id"], tuple(state["prompt"]), budgets)
