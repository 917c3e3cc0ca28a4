"""The JSON Schema of rule files, for editors: completion and squiggles while writing.

`python -m engine.rulebook.schema infra/rules.schema.json` writes it; a test fails when it drifts.
The loader is stricter (positions, names, samples); `rootrank rules check` has the last word.
"""

import json
import sys
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from engine.rulebook.document import RuleDocument

_DURATION: Final = {"type": ["string", "integer"], "pattern": r"^(0|-?\d+(\.\d+)?(ms|s|m|h|d))$"}
_DURATIONS: Final = {"Onset": ("default", "min", "max"), "Window": ("min", "max")}
_LISTS_OF_MAPPINGS: Final = frozenset({"signatures", "rows", "actions"})


def rules_schema() -> dict[str, Any]:
    """Return the JSON Schema (2020-12) that rule files are written against."""
    schema = TypeAdapter(RuleDocument).json_schema(mode="validation")
    for name, definition in schema["$defs"].items():
        properties = definition["properties"]
        for field, described in properties.items():
            if field in _DURATIONS.get(name, ()):
                properties[field] = dict(_DURATION)
            else:
                properties[field] = _as_written(field, described)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:rootrank:rules",
        "title": "rootrank rule",
        **schema,
    }


def rules_schema_text() -> str:
    """Return the schema as the committed file holds it."""
    return json.dumps(rules_schema(), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _as_written(field: str, described: dict[str, Any]) -> dict[str, Any]:
    """One scalar may stand for a list of one; texts may be written as bare numbers."""
    if described.get("type") == "array" and field not in _LISTS_OF_MAPPINGS:
        item = _scalar(described["items"])
        return {"anyOf": [{**described, "items": item}, item]}
    if isinstance(described.get("additionalProperties"), dict):
        return {**described, "additionalProperties": {}}
    return _scalar(described)


def _scalar(described: dict[str, Any]) -> dict[str, Any]:
    free_text = described.get("type") == "string" and not {"enum", "pattern"} & described.keys()
    return {**described, "type": ["string", "number", "boolean"]} if free_text else described


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(rules_schema_text(), encoding="utf-8")
