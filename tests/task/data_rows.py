"""Rows of data sets as small files of our own."""

import json

from scalerl.task.protocol import Example
from scalerl.task.split import prompt_id


def write(folder, rows, name="rows.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def examples(prompts, domain="d"):
    return [Example(prompt_id(p), p, "1", domain) for p in prompts]
