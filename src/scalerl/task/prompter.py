"""Prompts for Hugging Face models: chat template, system prompt, and the opening of the thinking."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from scalerl.errors import UserError
from scalerl.task.answer import CLOSE_THINKING, OPEN_THINKING
from scalerl.task.protocol import Example
from scalerl.task.spec import PromptStyle


class ChatPrompter:
    """A tokenizer and a style of prompting (implements task.protocol.Prompter).

    With a chat template the problem is the user's turn; without one it is plain text and a new line. Where
    the thinking is opened (see PromptStyle.thinking) the prompt ends with `<think>`, whether the template
    puts it there or not, so that sampled tokens begin inside the thinking. For tokenizers without such
    tokens `</think>` is plain text of several tokens: it still closes the thinking.
    """

    def __init__(self, tokenizer: Any, style: PromptStyle = PromptStyle()) -> None:
        self.tokenizer = tokenizer
        self.style = style
        self.chat = style.chat and bool(getattr(tokenizer, "chat_template", None))
        self.has_thinking_tokens = all(self._is_token(mark) for mark in (OPEN_THINKING, CLOSE_THINKING))
        self.opens_thinking = style.thinking == "open" or (
            style.thinking == "auto" and self.has_thinking_tokens
        )
        self._end_token = self._find_end_token()

    @classmethod
    def load(cls, folder: str | Path, style: PromptStyle = PromptStyle()) -> ChatPrompter:
        """Read the tokenizer of a model folder; raises UserError."""
        from transformers import AutoTokenizer

        try:
            return cls(AutoTokenizer.from_pretrained(folder, local_files_only=True), style)
        except (OSError, ValueError, KeyError) as error:
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise UserError(f"{folder}: can't load its tokenizer: {reason[:200]}") from None

    def _is_token(self, mark: str) -> bool:
        token = self.tokenizer.convert_tokens_to_ids(mark)
        return token is not None and token != self.tokenizer.unk_token_id

    def _find_end_token(self) -> int:
        """The special token that the template puts after the assistant's turn, else the tokenizer's own
        end.
        """
        special = set(self.tokenizer.all_special_ids) | set(self.tokenizer.added_tokens_decoder)
        if self.chat:
            marker = "scalerl"
            turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": marker}]
            text = self.tokenizer.apply_chat_template(turns, tokenize=False)
            after = self.tokenizer.encode(text.rpartition(marker)[2], add_special_tokens=False)
            if found := [token for token in after if token in special]:
                return int(found[0])
        if self.tokenizer.eos_token_id is None:
            raise UserError(
                "the tokenizer has no end token (eos_token): set one in its tokenizer_config.json"
            )
        return int(self.tokenizer.eos_token_id)

    def render(self, example: Example) -> str:
        """The prompt as text."""
        if self.chat:
            turns = [{"role": "system", "content": self.style.system}] if self.style.system else []
            turns.append({"role": "user", "content": example.prompt})
            text: str = self.tokenizer.apply_chat_template(
                turns,
                tokenize=False,
                add_generation_prompt=True,
                enable_thinking=self.style.thinking != "off",
            )
        else:
            text = (f"{self.style.system}\n\n" if self.style.system else "") + example.prompt + "\n"
        if self.opens_thinking and not text.rstrip().endswith(OPEN_THINKING):
            text += f"{OPEN_THINKING}\n"
        return text

    def encode(self, example: Example) -> tuple[int, ...]:
        """The prompt's tokens; a template brings its own special tokens, plain text gets the tokenizer's
        first one.
        """
        tokens = self.tokens(self.render(example))
        start = self.tokenizer.bos_token_id
        if self.chat or start is None or not getattr(self.tokenizer, "add_bos_token", False):
            return tokens
        return (int(start), *tokens)

    def tokens(self, text: str) -> tuple[int, ...]:
        """The tokens of a text, special tokens in it recognised, none added."""
        return tuple(self.tokenizer.encode(text, add_special_tokens=False))

    def decode(self, tokens: Sequence[int]) -> str:
        """A completion's text, special tokens kept."""
        text: str = self.tokenizer.decode(
            list(tokens), skip_special_tokens=False, clean_up_tokenization_spaces=False
        )
        return text

    @property
    def end_token(self) -> int:
        """The token that ends a completion."""
        return self._end_token

    @property
    def close_thinking(self) -> tuple[int, ...]:
        """The tokens of `</think>`."""
        return self.tokens(CLOSE_THINKING)
