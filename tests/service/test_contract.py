"""The OpenAPI document is the service: generated, committed, and held to by schemathesis."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from contract_checks import check_operation, known_ids, listening, operations
from service_api import ROOT, Api

from functions.service.openapi import document, methods_of, text

EXAMPLES = 4
SEED = 20261130


@pytest.fixture(scope="module")
def address(api: Api) -> Iterator[str]:
    """The address of the service on loopback."""
    with listening(api) as where:
        yield where


@pytest.fixture(scope="module")
def known(api: Api) -> dict[str, str]:
    """Ids that exist, so that more than refusals is looked at."""
    return known_ids(api)


def test_the_committed_document_is_the_generated_one() -> None:
    committed = (ROOT / "docs/openapi.json").read_text(encoding="utf-8")
    assert committed == text(), "run `make schemas` and commit the result"


def test_the_document_is_openapi_3_1_and_names_every_error_a_problem() -> None:
    made = document()
    assert made["openapi"].startswith("3.1.")
    assert {"iam": []} in made["security"]
    for path, operations_of in made["paths"].items():
        for method, operation in operations_of.items():
            for status, response in operation["responses"].items():
                (kind,) = response["content"]
                wanted = "application/json" if status < "300" else "application/problem+json"
                assert kind == wanted, (path, method, status)


def test_a_path_is_known_by_its_template() -> None:
    assert methods_of("/v1/results") == ("GET",)
    assert methods_of("/v1/sessions/ses_1/chunks") == ("POST",)
    assert methods_of("/v1/sessions/a/b/chunks") == ()
    assert methods_of("/v2/results") == ()


@pytest.mark.parametrize("label", operations())
def test_no_request_breaks_the_contract(label: str, address: str, known: dict[str, str]) -> None:
    check_operation(label, address, known, examples=EXAMPLES, seed=SEED)


def test_the_committed_run_of_many_examples_found_nothing() -> None:
    told = json.loads((Path(__file__).parent / "contract-soak.json").read_text())
    assert set(told["operations"]) == set(operations())
    assert all(each["examples"] >= 100 for each in told["operations"].values())
    assert not any(each["failures"] for each in told["operations"].values())
