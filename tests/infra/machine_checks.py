"""What a sound state machine is: linters accept one whose start state does not exist."""

from collections.abc import Iterator
from typing import Any

OUTSIDE_NAMES = ("States.", "Lambda.", "Sandbox.")


def problems(machine: dict[str, Any], our_errors: set[str]) -> list[str]:
    """Return everything that is wrong with a machine, sorted."""
    return sorted({*_structure(machine, "machine"), *_safety(machine, our_errors)})


def _structure(machine: dict[str, Any], where: str) -> Iterator[str]:
    states = machine["States"]
    if machine.get("StartAt") not in states:
        yield f"{where}: StartAt {machine.get('StartAt')} does not exist"
    for name, state in states.items():
        for target in _targets(state):
            if target not in states:
                yield f"{name}: goes to {target}, which does not exist"
        ends = state["Type"] in ("Succeed", "Fail", "Choice") or state.get("End") is True
        if not ends and "Next" not in state:
            yield f"{name}: neither ends nor goes on"
        if state["Type"] == "Choice" and "Default" not in state:
            yield f"{name}: has no Default"
        if state["Type"] == "Map":
            yield from _structure(state["ItemProcessor"], name)
    reached = {machine.get("StartAt")}
    frontier = set(reached)
    while frontier:
        following = {t for name in frontier if name in states for t in _targets(states[name])}
        frontier = following - reached
        reached |= frontier
    for name in sorted(set(states) - reached):
        yield f"{name}: cannot be reached"


def _targets(state: dict[str, Any]) -> list[str]:
    found = [state[key] for key in ("Next", "Default") if key in state]
    found += [each["Next"] for each in state.get("Choices", ())]
    return found + [each["Next"] for each in state.get("Catch", ())]


def _safety(machine: dict[str, Any], our_errors: set[str]) -> Iterator[str]:
    states = machine["States"]
    if "TimeoutSeconds" not in machine:
        yield "machine: no TimeoutSeconds"
    for name, state in every_state(machine):
        for rule in (*state.get("Retry", ()), *state.get("Catch", ())):
            for error in rule["ErrorEquals"]:
                if not error.startswith(OUTSIDE_NAMES) and error not in our_errors:
                    yield f"{name}: no exception is called {error}"
        for retry in state.get("Retry", ()):
            if retry.get("JitterStrategy") != "FULL" or "MaxDelaySeconds" not in retry:
                yield f"{name}: a Retry without jitter or ceiling"
        if state["Type"] == "Task":
            if "TimeoutSeconds" not in state:
                yield f"{name}: no TimeoutSeconds"
            if not state.get("Retry"):
                yield f"{name}: no Retry"
            if name in states and not _catches_all(state):
                yield f"{name}: no Catch of States.ALL"
        if state["Type"] == "Map":
            yield from _map(name, state, states)


def _map(name: str, state: dict[str, Any], states: dict[str, Any]) -> Iterator[str]:
    if not 99 <= state.get("ToleratedFailurePercentage", 0) <= 100:
        yield f"{name}: tolerates too few failed children"
    if "ResultWriter" not in state:
        yield f"{name}: no ResultWriter"
    if not _catches_all(state):
        yield f"{name}: no Catch of States.ALL"
    for catch in state.get("Catch", ()):
        if not _leads_to(catch["Next"], "Attribute", states):
            yield f"{name}: a Catch that does not end in a verdict"


def _catches_all(state: dict[str, Any]) -> bool:
    return any("States.ALL" in each["ErrorEquals"] for each in state.get("Catch", ()))


def _leads_to(start: str, goal: str, states: dict[str, Any]) -> bool:
    seen: set[str] = set()
    frontier = {start}
    while frontier:
        if goal in frontier:
            return True
        seen |= frontier
        frontier = {t for n in frontier if n in states for t in _targets(states[n])} - seen
    return False


def every_state(machine: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every state, those of Map children too."""
    for name, state in machine["States"].items():
        yield name, state
        if state["Type"] == "Map":
            yield from every_state(state["ItemProcessor"])
