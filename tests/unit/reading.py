"""Runs one structured reader as extraction does, with a fake context."""

from dataclasses import dataclass, field

from engine.extract.formats import Structured, read_structured
from engine.model.stream import StreamLabel
from engine.model.vocabulary import Source
from engine.model.workload import Workload
from engine.rulebook.book import MetricDef, Rulebook


def rulebook(*metrics: MetricDef) -> Rulebook:
    return Rulebook("1.0.0", "sha256:x", "sha256:r", (), {}, (), metrics)


@dataclass
class FakeContext:
    workload: Workload
    book: Rulebook = field(default_factory=rulebook)
    connector: str = "static"


def read(
    source: Source,
    text: str | bytes,
    *,
    job_id: str = "410050",
    scheduler: str = "slurm",
    nodes: tuple[str, ...] = (),
    metrics: tuple[MetricDef, ...] = (),
    label: dict[str, object] | None = None,
    **workload: object,
) -> Structured | None:
    data = text.encode() if isinstance(text, str) else text
    made = Workload.model_validate(
        {"scheduler": scheduler, "job_id": job_id, "nodes": list(nodes), **workload}
    )
    values: dict[str, object] = {"uri": "file", "source": source, "trust": "platform"}
    stream = StreamLabel(**(values | (label or {})))  # type: ignore[arg-type]
    return read_structured(source, data, stream, FakeContext(made, rulebook(*metrics)))


def facts(structured: Structured | None) -> list[str]:
    assert structured is not None
    return [fact.text for fact in (*structured.facts, *structured.others)]
