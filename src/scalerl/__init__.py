"""scalerl: a science of scaling for reinforcement learning of language models.

The curve half (fit, forecast, backtest, compare) needs NumPy and SciPy only; nothing here imports torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from scalerl.curve.backtest import backtest
    from scalerl.curve.compare import compare
    from scalerl.curve.fit import Fit, fit
    from scalerl.record.load import load
    from scalerl.record.run import Run

_HOMES = {
    "fit": "scalerl.curve.fit",
    "Fit": "scalerl.curve.fit",
    "backtest": "scalerl.curve.backtest",
    "compare": "scalerl.curve.compare",
    "load": "scalerl.record.load",
    "Run": "scalerl.record.run",
}

__all__ = ["Fit", "Run", "__version__", "backtest", "compare", "fit", "load"]


def __getattr__(name: str) -> Any:
    """Import the public names on first use, so that `import scalerl` stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module 'scalerl' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
