"""The OpenAPI document: it is what the code says, and the answers are what it says."""

import json

import pytest
from tools import openapi

from fairway.web.answers import ANSWERS
from fairway.web.contract import OPERATIONS
from fairway.web.openapi import document


@pytest.fixture(scope="module")
def made():
    return json.loads(openapi.text())


def test_the_committed_document_is_what_the_code_says(made):
    assert json.loads(openapi.FILE.read_text()) == made, "run: python -m tools.openapi"


def test_every_operation_has_its_text_and_every_reference_leads_somewhere(made):
    text = json.dumps(made)
    for operation in OPERATIONS:
        assert operation.text.endswith(".")
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= made["components"]["schemas"].keys()


def test_views_that_the_page_needs_first_have_an_example(made):
    for path in ("session", "overview", "jobs", "queues", "nodes", "scheduler"):
        content = made["paths"][f"/api/v1/{path}"]["get"]["responses"]["200"]["content"]["application/json"]
        assert content["example"]["now"] == "2026-01-01T00:25:00Z"


def test_every_field_of_an_answer_is_promised():
    schema = document()["components"]["schemas"]["JobsPage"]
    assert set(schema["required"]) == set(schema["properties"])


def test_no_method_answers_what_the_contract_does_not_have():
    names = {operation.name for operation in OPERATIONS}
    assert ANSWERS.keys() <= names
