"""A tiny model over single characters: it can do nothing, but everything can be run with it."""

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

SPECIAL = ("<pad>", "<eos>", "<|im_start|>", "<|im_end|>")


def character_tokenizer(extra=(), chat_template=None):
    """A tokenizer of single characters with a few special tokens: small, and knows all of ASCII."""
    special = [*SPECIAL, *extra]
    vocabulary = {token: i for i, token in enumerate([*special, "\n", *map(chr, range(32, 127)), "<unk>"])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    backend.decoder = decoders.Fuse()
    made = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<eos>",
        pad_token="<pad>",
        unk_token="<unk>",
        additional_special_tokens=special[2:],
    )
    if chat_template:
        made.chat_template = chat_template
    return made


def save_character_model(folder):
    """Write a model folder: 1 layer, width 32, random weights, with its tokenizer."""
    from scalerl.policy.load import new_policy, save_policy

    tokenizer = character_tokenizer(("<think>", "</think>"))
    config = {
        "model_type": "llama",
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "max_position_embeddings": 1024,
        "tie_word_embeddings": True,
        "eos_token_id": tokenizer.eos_token_id,
    }
    save_policy(new_policy(config, seed=0), folder)
    tokenizer.save_pretrained(folder)
    return folder
