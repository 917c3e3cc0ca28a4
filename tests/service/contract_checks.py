"""schemathesis over one operation at a time, seeded, against a server on loopback."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Thread
from typing import Any

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from service_api import Api

from functions.service.openapi import document
from rootrank.embedded.emulator import LambdaContext
from rootrank.service.server import LocalServer

TOKEN = "Bearer of-team-a"


def _config() -> Any:
    """Every check of schemathesis; 422 is our answer to what is well formed and cannot be."""
    return schemathesis.Config.from_dict(
        {
            "checks": {
                "positive_data_acceptance": {
                    "expected-statuses": ["2xx", "403", "404", "409", "413", "422"]
                }
            }
        }
    )


SCHEMA: Any = schemathesis.openapi.from_dict(document(), config=_config())


@contextmanager
def listening(api: Api) -> Iterator[str]:
    """Serve on loopback; whoever brings the token is tenant A, anybody else is nobody."""

    def answer(event: dict[str, Any]) -> dict[str, Any]:
        arn = "arn:aws:iam::111122223333:role/team-a"
        is_signed = event["headers"].get("authorization") == TOKEN
        event["requestContext"]["authorizer"] = {"iam": {"userArn": arn}} if is_signed else None
        return api.front.answer(event, LambdaContext("service", 1024, "arn:aws:lambda:local"))

    server = LocalServer(answer, api.uploads)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.address
    finally:
        server.shutdown()
        server.server_close()


def known_ids(api: Api) -> dict[str, str]:
    """Return ids that exist."""
    session = api.session()
    api.chunk(session, "train.log", "step 1\n")
    return {"session_id": session, "result_id": api.publish("team-a", "500")}


def operations() -> list[str]:
    """Return `METHOD /path` of every operation of the document."""
    return sorted(each.ok().label for each in SCHEMA.get_all_operations())


def check_operation(
    label: str, address: str, known: Mapping[str, str], *, examples: int, seed: int
) -> int:
    """Send valid and invalid requests; raises on a 5xx or a breach. Returns how many were sent."""
    method, path = label.split(" ", 1)
    operation = SCHEMA[path][method]
    sent = 0
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        strategy = operation.as_strategy(generation_mode=mode)
        # In negative mode the id may be what is wrong, so it stays.
        ids = known if mode is GenerationMode.POSITIVE else {}
        sent += _run(strategy, address, ids, examples=examples, start=seed)
    return sent


def _run(
    strategy: Any, address: str, known: Mapping[str, str], *, examples: int, start: int
) -> int:
    sent = 0

    @seed(start)
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=False,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=strategy, is_known=st.booleans())
    def run(case: Any, is_known: bool) -> None:
        nonlocal sent
        if known and is_known and case.path_parameters:
            case.path_parameters = {name: known[name] for name in case.path_parameters}
        sent += 1
        case.call_and_validate(base_url=address, timeout=60, headers={"Authorization": TOKEN})

    run()
    return sent
