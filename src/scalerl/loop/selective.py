"""An engine of which only some completions take a token at a time: many virtual devices decoded as one batch.

Devices of a simulated cluster are at different moments. Those whose next token is due and whose weights are
equal are decoded together. Completions of other devices are held: they pass through the batch, unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from scalerl.generate.protocol import Completion, GroupRequest
from scalerl.generate.torch_engine import TorchEngine
from scalerl.loop.device import Member


class SelectiveEngine(TorchEngine):
    """A `TorchEngine` whose caller says which completions start, and which decode their next token.

    Its slots must hold all completions that are ever in flight together; its queue stays empty.
    """

    def decode(
        self, starting: Sequence[tuple[GroupRequest, int]], held: Collection[Member]
    ) -> list[Completion]:
        """Start these (request, sample), then decode one token of every completion that isn't held.

        Returns what finished, ordered by (group, sample).
        """
        rows = [row for row, member in enumerate(self.members()) if member in held] if held else []
        return self.advance(starting, np.array(rows, dtype=np.int64))
