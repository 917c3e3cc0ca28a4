"""The state machine, and that the checks would notice if it broke."""

import copy
import importlib
import json
import pkgutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from machine_checks import every_state, problems

import functions
from connectors.protocol import TransientError

ROOT = Path(__file__).parents[2]
MACHINE = json.loads((ROOT / "infra/statemachine/attribution.asl.json").read_text())


def exception_names() -> set[str]:
    """Return the names of every exception of ours that a handler can raise."""
    for module in pkgutil.walk_packages(functions.__path__, "functions."):
        importlib.import_module(module.name)
    found: set[str] = set()
    frontier: list[type[BaseException]] = [Exception]
    while frontier:
        each = frontier.pop()
        frontier += each.__subclasses__()
        if each.__module__.split(".")[0] in ("functions", "connectors", "engine"):
            found.add(each.__name__)
    return found


def test_the_machine_is_sound() -> None:
    assert problems(MACHINE, exception_names()) == []


def _drop(*path: str) -> Callable[[Any], None]:
    def change(machine: Any) -> None:
        place = machine
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return change


def _set(value: Any, *path: Any) -> Callable[[Any], None]:
    def change(machine: Any) -> None:
        place = machine
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value

    return change


CHILD = ("States", "Collect", "ItemProcessor", "States", "CollectItem")
BROKEN: list[tuple[Callable[[Any], None], str]] = [
    (_set("Begin", "StartAt"), "machine: StartAt Begin does not exist"),
    (_set("Nowhere", "States", "Plan", "Next"), "Plan: goes to Nowhere, which does not exist"),
    (_set("Gone", "States", "AnythingToCollect", "Default"), "AnythingToCollect: goes to Gone"),
    (_set("Gone", "States", "Collect", "Catch", 0, "Next"), "Collect: a Catch that does not end"),
    (_set("Done", "States", "Collect", "Catch", 0, "Next"), "Collect: a Catch that does not end"),
    (_set("Gone", "States", "Collect", "ItemProcessor", "StartAt"), "Collect: StartAt Gone"),
    (_set("Done", "States", "AnythingToPublish", "Choices", 0, "Next"), "Publish: cannot be"),
    (_drop("States", "Plan", "Next"), "Plan: neither ends nor goes on"),
    (_drop("States", "WouldMoreChangeIt", "Default"), "WouldMoreChangeIt: has no Default"),
    (_drop("States", "Plan", "Catch"), "Plan: no Catch of States.ALL"),
    (_drop("States", "Collect", "Catch"), "Collect: no Catch of States.ALL"),
    (_drop("States", "Collect", "ResultWriter"), "Collect: no ResultWriter"),
    (_drop("States", "Collect", "ToleratedFailurePercentage"), "Collect: tolerates too few"),
    (_drop("States", "Attribute", "TimeoutSeconds"), "Attribute: no TimeoutSeconds"),
    (_drop("TimeoutSeconds"), "machine: no TimeoutSeconds"),
    (_drop("States", "Publish", "Retry"), "Publish: no Retry"),
    (_drop(*CHILD, "Retry"), "CollectItem: no Retry"),
    (_drop(*CHILD, "Retry", 0, "JitterStrategy"), "CollectItem: a Retry without jitter"),
    (
        _set(["NoSuchError"], "States", "Attribute", "Retry", 0, "ErrorEquals"),
        "Attribute: no exception is called NoSuchError",
    ),
]


@pytest.mark.parametrize(("change", "told"), BROKEN, ids=[told for _, told in BROKEN])
def test_a_broken_machine_is_noticed(change: Callable[[Any], None], told: str) -> None:
    machine = copy.deepcopy(MACHINE)
    change(machine)
    assert any(each.startswith(told) for each in problems(machine, exception_names()))


def test_errors_that_are_retried_by_name_are_transient() -> None:
    exception_names()
    transient = {TransientError.__name__, *(c.__name__ for c in _subclasses(TransientError))}
    retried = {
        error
        for _, state in every_state(MACHINE)
        for rule in state.get("Retry", ())
        for error in rule["ErrorEquals"]
        if "." not in error
    }
    assert retried
    assert retried <= transient


def test_every_transient_error_of_the_functions_is_retried_where_it_can_arise() -> None:
    retried = {
        error for rule in MACHINE["States"]["Attribute"]["Retry"] for error in rule["ErrorEquals"]
    }
    assert {"StoreBusyError", "TableBusyError", "RevisionConflictError"} <= retried


def _subclasses(cls: type[BaseException]) -> list[type[BaseException]]:
    return [each for sub in cls.__subclasses__() for each in (sub, *_subclasses(sub))]


def test_the_second_collection_starts_with_a_clean_slate() -> None:
    kept = MACHINE["States"]["NextCollection"]["Parameters"]
    assert sorted(kept) == ["attempt_key.$", "collection.$", "generation.$"]


def test_substitutions_of_the_machine_are_those_of_the_template() -> None:
    from rootrank.embedded.template import read_template

    template = read_template(ROOT)
    machine = template["Resources"]["AttributionStateMachine"]["Properties"]
    text = json.dumps(MACHINE)
    for name in machine["DefinitionSubstitutions"]:
        assert f"${{{name}}}" in text
    assert text.count("${") == sum(
        text.count(f"${{{name}}}") for name in machine["DefinitionSubstitutions"]
    )


@pytest.mark.system("asl-validator")
def test_the_language_validator_accepts_the_machine() -> None:
    program = ROOT / "build/asl/node_modules/.bin/asl-validator"
    machine = ROOT / "infra/statemachine/attribution.asl.json"
    told = subprocess.run(
        [str(program), "--json-path", str(machine)], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr
