"""JSON Schemas of every contract document, generated from the models.

`python -m engine.model.schemas events/schemas` writes them; a test fails when they drift.
Published schemas allow extra keys: within a major version optional fields are added.
"""

import json
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from engine.model.envelope import Envelope
from engine.model.event import AttributionRequested, BusEvent, JobCompleted
from engine.model.observation import Observation, StreamSummary
from engine.model.plan import Manifest, Plan, Report
from engine.model.verdict import Verdict
from engine.model.workload import Bundle

DOCUMENTS: dict[str, type[Any]] = {
    "attribution-requested-v1": AttributionRequested,
    "attribution-v1": Envelope,
    "bundle-v1": Bundle,
    "bus-event-v1": BusEvent,
    "job-completed-v1": JobCompleted,
    "manifest-v1": Manifest,
    "observation-v1": Observation,
    "plan-v1": Plan,
    "report-v1": Report,
    "stream-summary-v1": StreamSummary,
    "verdict-v1": Verdict,
}


def schema_of(name: str) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of the document called `name`."""
    model = DOCUMENTS[name]
    if isinstance(model, type) and issubclass(model, BaseModel):
        schema = model.model_json_schema(mode="validation")
    else:
        schema = TypeAdapter(model).json_schema(mode="validation")
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:rootrank:{name}",
        **_open(schema),
    }


def schema_text(name: str) -> str:
    """Return the schema as the committed file holds it."""
    return json.dumps(schema_of(name), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _open(node: Any) -> Any:
    if isinstance(node, dict):
        closed = node.get("additionalProperties") is False
        return {
            key: _open(value)
            for key, value in node.items()
            if not (closed and key == "additionalProperties")
        }
    return [_open(item) for item in node] if isinstance(node, list) else node


def write_all(folder: Path) -> list[Path]:
    """Write every schema below `folder` and return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name in sorted(DOCUMENTS):
        path = folder / f"{name}.json"
        path.write_text(schema_text(name), encoding="utf-8")
        written.append(path)
    return written


if __name__ == "__main__":
    write_all(Path(sys.argv[1]))
