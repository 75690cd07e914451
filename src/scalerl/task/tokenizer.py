"""A tokenizer for tiny models: one token a symbol, also saved in the Hugging Face form."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import orjson

from scalerl.errors import UserError
from scalerl.task.protocol import Example

PAD, END, OPEN_THINKING, CLOSE_THINKING, TIME_UP = "<pad>", "<end>", "<think>", "</think>", "~"


@dataclass(frozen=True)
class SymbolTokenizer:
    """One token a symbol; symbols of more than one character are the special tokens `<...>`.

    As a prompter it writes an example's prompt, then `=` and `<think>`: the model begins with its thinking.
    """

    symbols: tuple[str, ...]

    @cached_property
    def ids(self) -> dict[str, int]:
        """Symbol to token."""
        return {symbol: token for token, symbol in enumerate(self.symbols)}

    @property
    def pad_token(self) -> int:
        """The token that fills padded positions."""
        return self.ids[PAD]

    @property
    def end_token(self) -> int:
        """The token that ends a completion."""
        return self.ids[END]

    @property
    def close_thinking(self) -> tuple[int, ...]:
        """The token of `</think>`."""
        return (self.ids[CLOSE_THINKING],)

    def tokens(self, text: str) -> tuple[int, ...]:
        """Split `text` into symbols; raise UserError for one that isn't in the vocabulary."""
        symbols = self._symbol.findall(text)
        try:
            return tuple(map(self.ids.__getitem__, symbols))
        except KeyError as error:
            unknown = error.args[0]
            raise UserError(
                f"the symbol {unknown!r} of {text!r} isn't in this tokenizer's vocabulary"
            ) from None

    @cached_property
    def _symbol(self) -> re.Pattern[str]:
        """A symbol of several characters, else a single one."""
        special = (re.escape(s) for s in self.symbols if len(s) > 1)
        return re.compile("|".join([*special, "."]), re.DOTALL)

    def encode(self, example: Example) -> tuple[int, ...]:
        """Return the prompt's tokens, `<think>` included."""
        return self.tokens(f"{example.prompt}={OPEN_THINKING}")

    def decode(self, tokens: Sequence[int]) -> str:
        """Return the text of `tokens`, special tokens kept."""
        return "".join(map(self.symbols.__getitem__, tokens))

    def save(self, folder: Path) -> None:
        """Write tokenizer.json and tokenizer_config.json, which transformers' AutoTokenizer reads."""
        model = {"type": "WordLevel", "vocab": self.ids, "unk_token": PAD}
        plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        added = [
            {"id": i, "content": s, "special": True, **plain}
            for s, i in self.ids.items() if len(s) > 1
        ]  # fmt: skip
        split = {"type": "Split", "pattern": {"Regex": "."}, "behavior": "Isolated", "invert": False}
        absent = dict.fromkeys(("truncation", "padding", "normalizer", "post_processor"))
        whole = {
            "version": "1.0",
            **absent,
            "added_tokens": added,
            "pre_tokenizer": split,
            "decoder": {"type": "Fuse"},
            "model": model,
        }
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "pad_token": PAD, "eos_token": END}
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "tokenizer.json").write_bytes(orjson.dumps(whole, option=orjson.OPT_INDENT_2))
        (folder / "tokenizer_config.json").write_bytes(orjson.dumps(config, option=orjson.OPT_INDENT_2))

    @classmethod
    def load(cls, folder: Path) -> SymbolTokenizer:
        """Read what `save` wrote; raise UserError when the folder holds another kind of tokenizer."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise UserError(f"{path}: no such file; a checkpoint needs its tokenizer beside it")
        model = orjson.loads(path.read_bytes()).get("model", {})
        if model.get("type") != "WordLevel":
            raise UserError(
                f"{path}: model.type is {model.get('type')!r}; the symbol tokenizer reads 'WordLevel' only"
            )
        return cls(tuple(sorted(model["vocab"], key=model["vocab"].__getitem__)))
