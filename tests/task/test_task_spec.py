"""Task specifications: short strings, mappings, files; mistakes name the field."""

import pytest
from data_rows import write

from scalerl.cli.eval_points import parse_sets
from scalerl.errors import UserError
from scalerl.task.build import build_task, build_verifier
from scalerl.task.code_verifier import CodeVerifier
from scalerl.task.math_verifier import MathVerifier
from scalerl.task.spec import PromptStyle, parse_spec


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("arithmetic,max_operations=3", {"kind": "arithmetic", "options": {"max_operations": 3}}),
        ("gsm8k", {"kind": "dataset", "name": "gsm8k"}),
        (
            "gsm8k:a.parquet,held_out_prompts=7",
            {"kind": "dataset", "path": "a.parquet", "held_out_prompts": 7},
        ),
        ("math:x.jsonl", {"kind": "math_file", "path": "x.jsonl"}),
        ("code:x.jsonl", {"kind": "code_file", "path": "x.jsonl"}),
        (
            "reasoning_gym:chain_sum,min_terms=2",
            {"kind": "reasoning_gym", "name": "chain_sum", "options": {"min_terms": 2}},
        ),
    ],
)
def test_short_strings(text, wanted):
    spec = parse_spec(text).model_dump()
    assert {key: spec[key] for key in wanted} == wanted


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"kind": "nonsense"}, "kind"),
        ({"kind": "arithmetic", "helf_out": 3}, "helf_out"),
        ({"kind": "dataset"}, "needs the field 'name'"),
        ({"kind": "arithmetic", "held_out_prompts": -1}, "held_out_prompts"),
        ("nonsense:x", "no such file|is unknown"),
        ("gsm8k,held_out", "field=value"),
        ("missing.yaml", "can't read"),
        ("arithmetic,no_such_option=1", "no_such_option"),
    ],
)
def test_mistakes_name_the_field(given, reason):
    with pytest.raises(UserError, match=reason):
        build_task(given)


def test_yaml_file(tmp_path):
    path = tmp_path / "task.yaml"
    path.write_text("kind: arithmetic\nheld_out_prompts: 5\ntrain_prompts: 9\n")
    task = build_task(str(path))
    assert (len(task.train), len(task.held_out)) == (9, 5)


def test_verifier_follows_the_domain():
    assert isinstance(build_verifier(parse_spec("gsm8k")), MathVerifier)
    code = build_verifier(
        parse_spec({"kind": "dataset", "name": "livecodebench", "code": {"unsafe_no_sandbox": True}})
    )
    assert isinstance(code, CodeVerifier)


@pytest.mark.parametrize(
    ("instruction", "appended"),
    [(None, None), ("", ""), ("Be brief.", "\n\nBe brief."), ("\nBe brief.", "\nBe brief."), (" ok", " ok")],
)
def test_instructions_follow_after_a_blank_line(instruction, appended):
    assert PromptStyle(instruction=instruction).appended == appended


def test_eval_restyles_the_parts_of_a_mixture_too(tmp_path):
    rows = write(tmp_path, [{"prompt": f"p{n}", "answer": "1"} for n in range(4)])
    task = tmp_path / "mixed.yaml"
    task.write_text(
        f"kind: mixture\nparts:\n  - {{task: {{kind: math_file, path: {rows}, held_out_prompts: 1}}}}\n"
        "  - {task: {kind: reasoning_gym, name: chain_sum, train_prompts: 5, held_out_prompts: 1}}\n"
    )
    (plain,) = parse_sets([str(task)])
    (styled,) = parse_sets([str(task)], instruction="One word.", thinking="off")
    assert all(e.prompt.endswith("\n\nOne word.") for e in styled.examples)
    assert not any("One word." in e.prompt for e in plain.examples)
    assert styled.spec.prompt.thinking == "off"
    with pytest.raises(UserError, match="--thinking"):
        parse_sets([str(task)], thinking="ajar")
