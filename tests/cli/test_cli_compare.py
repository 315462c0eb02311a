"""`fairway compare`, as a user sees it."""

import json
from pathlib import Path

import pytest
import yaml

CASES = json.loads((Path(__file__).parents[1] / "cases" / "resource-comparison.json").read_text())["cases"]
NAMES = [name for name in CASES[0] if name not in ("left", "right", "default")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['left']} {case['right']} {case['default']}")
def test_the_nine_answers_of_every_case(fairway, case):
    left, right = json.dumps(case["left"]), json.dumps(case["right"])
    result = fairway("compare", left, right, "--default", case["default"], "-o", "json")
    answers = json.loads(result.out)
    assert result.code == 0
    assert {name: answers[name] for name in NAMES} == {name: case[name] for name in NAMES}
    assert set(answers) == {*NAMES, "deciding"}
    assert set(answers["deciding"]) == set(NAMES)


def test_the_table(fairway):
    left, right = '{"cpu":"1","memory":"1G"}', '{"cpu":"2","memory":"2G","gpu":"2"}'
    result = fairway("compare", left, right, "--default", "infinity")
    lines = [line.rstrip() for line in result.out.splitlines()]
    assert lines[:3] == [
        "L  cpu 1, memory 1G",
        "R  cpu 2, gpu 2, memory 2G",
        "A dimension missing from one of them counts as infinity.",
    ]
    assert [line.split(maxsplit=2) for line in lines[6:]] == [
        ["less", "no", "gpu"],
        ["less_equal", "no", "gpu"],
        ["less_partly", "yes", "cpu, memory"],
        ["less_equal_partly", "yes", "cpu, memory"],
        ["equal", "no", "cpu, gpu, memory"],
        ["greater", "no", "cpu, memory"],
        ["greater_equal", "no", "cpu, memory"],
        ["greater_partly", "yes", "gpu"],
        ["greater_equal_partly", "yes", "gpu"],
    ]


def test_the_deciding_dimensions_in_json_and_yaml(fairway):
    arguments = ("compare", '{"cpu": 1, "memory": "2Gi"}', '{"cpu": 1.5, "memory": "1Gi"}')
    as_json = json.loads(fairway(*arguments, "-o", "json").out)
    assert as_json["deciding"]["less"] == ["memory"]
    assert as_json["deciding"]["less_partly"] == ["cpu"]
    assert yaml.safe_load(fairway(*arguments, "-o", "yaml").out) == as_json


def test_a_table_fits_80_columns_however_many_dimensions(fairway, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    wide = json.dumps({f"example.com/resource-number-{n}": str(n) for n in range(30)})
    result = fairway("compare", wide, "{}")
    assert max(map(len, result.out.splitlines())) <= 80


def test_empty_lists(fairway):
    assert "L  (empty)" in fairway("compare", "{}", "{}").out


@pytest.mark.parametrize(
    ("left", "right", "message"),
    [
        ("{", "{}", "L: not JSON: "),
        ("{}", "nope", "R: not JSON: "),
        ("[]", "{}", 'L: not a JSON object, expected for example \'{"cpu": "1"}\''),
        ("{}", '"cpu"', "R: not a JSON object"),
        ("{}", "null", "R: not a JSON object"),
        ('{"cpu":"1K"}', "{}", "L: invalid quantity '1K': cpu: unknown suffix 'K'"),
        ("{}", '{"memory":"1 Gi"}', "R: invalid quantity '1 Gi': memory: blanks are not allowed"),
        ("{}", '{"cpu":"-1"}', "R: invalid quantity '-1': cpu: must not be negative"),
        ("{}", '{"cpu":NaN}', "R: invalid quantity 'NaN': cpu: "),
        ("{}", '{"cpu":""}', "R: invalid quantity '': cpu: empty"),
        ("{}", '{"cpu":true}', "R: cpu: not a quantity"),
        ("{}", '{"cpu":{}}', "R: cpu: not a quantity"),
        ("{}", '{"cpu":"1","cpu":"2"}', "R: not JSON: duplicate name"),
        ("{}", '{"memory":"99999999999999999999"}', "R: invalid quantity"),
        ("{}", '{"cpu":' + "9" * 5000 + "}", "R: "),
        ("{}", "[" * 100_000, "R: "),
    ],
)
def test_bad_input_names_the_side_and_what_was_expected(fairway, left, right, message):
    result = fairway("compare", left, right)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith(f"Error: {message}")
    assert len(result.err.splitlines()) == 1
