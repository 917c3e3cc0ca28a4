"""Fields of `sources.yaml` that an environment sets otherwise: one file for several stages.

`ROOTRANK__RESEARCH_A__LOKI__URL` is `url` of `loki` of the cluster `research-a`;
`ROOTRANK__RESEARCH_A__FILES__TRAIN__ROOT` is `root` of its entry `train` of `files`. Secrets have
no value in the file, so none can be set here.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

PREFIX: Final = "ROOTRANK__"


class OverrideError(ValueError):
    """A variable that names nothing in the file."""


def overridden(value: dict[str, Any], environment: Mapping[str, str]) -> dict[str, Any]:
    """Return the file's value with what the environment sets; raises `OverrideError`."""
    changed: dict[str, Any] = _copied(value)
    for variable in sorted(environment):
        if variable.startswith(PREFIX):
            _set(changed, variable, environment[variable])
    return changed


def _set(value: dict[str, Any], variable: str, text: str) -> None:
    first, *rest = variable.removeprefix(PREFIX).split("__")
    place: Any = _named(value.get("clusters"), first)
    if place is None or not rest:
        raise OverrideError(f"{variable}: no cluster of the file is called so")
    for step in rest[:-1]:
        place = _step(place, step)
        if place is None:
            raise OverrideError(f"{variable}: the file has no {step.lower()} there")
    if not isinstance(place, dict):
        raise OverrideError(f"{variable}: names a list; name one entry of it")
    key = rest[-1].lower()
    if isinstance(place.get(key), dict | list):
        raise OverrideError(f"{variable}: {key} is no single value")
    place[key] = text


def _step(place: Any, step: str) -> Any:
    return place.get(step.lower()) if isinstance(place, dict) else _named(place, step)


def _named(entries: Any, name: str) -> Any:
    found = entries if isinstance(entries, list) else []
    for each in found:
        if isinstance(each, dict) and shouted(str(each.get("name", ""))) == name:
            return each
    return None


def shouted(name: str) -> str:
    """Return a name as variables write it: `research-a` is `RESEARCH_A`."""
    return re.sub(r"[^A-Z0-9]", "_", name.upper())


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(each) for key, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value
