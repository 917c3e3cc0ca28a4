"""Evidence entries: the lines that claims rest on, each once, within the document's ceiling."""

from engine.entities import Directory
from engine.episodes import Episode
from engine.model.canonical import short_id
from engine.model.moment import rfc3339
from engine.model.observation import Observation, Sample
from engine.model.verdict import Evidence

MAX_TEXT = 1600
MAX_EVIDENCE = 600


class Exhibits:
    """Hands out evidence ids and keeps what they stand for."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._entries: dict[str, Evidence] = {}

    def cite(self, episode: Episode, limit: int) -> list[str]:
        """Return ids of up to `limit` sightings of an episode, the earliest first."""
        if len(self._entries) >= MAX_EVIDENCE and limit <= 1:
            return []
        # One record may give several facts: the same bytes, another excerpt.
        picked: dict[tuple[str, int, str], tuple[Observation, Sample]] = {}
        ordered = episode.observations
        if len(ordered) > limit:
            ordered = sorted(ordered, key=_strength)[: limit * 4]
        for observation in sorted(ordered, key=_strength):
            for sample in (observation.first, *observation.samples, observation.last):
                spot = (sample.origin.uri, sample.origin.byte_offset, sample.text)
                picked.setdefault(spot, (observation, sample))
                if len(picked) >= limit:
                    break
            if len(picked) >= limit:
                break
        return [self._add(*picked[spot]) for spot in sorted(picked)]

    def _add(self, observation: Observation, sample: Sample) -> str:
        origin = sample.origin
        evidence_id = short_id(
            "ev", origin.uri, origin.byte_offset, origin.byte_length, sample.text
        )
        if evidence_id not in self._entries:
            entity = observation.entity
            at = sample.when.earliest_us
            self._entries[evidence_id] = Evidence(
                evidence_id=evidence_id,
                source=observation.source,
                connector=observation.connector,
                uri=origin.uri,
                line=max(1, origin.line),
                byte_offset=origin.byte_offset,
                byte_length=origin.byte_length,
                node=self._directory.names.canonical(entity.node) or None,
                rank=entity.rank,
                observed_at=None if at is None else rfc3339(at),
                time_basis=sample.when.basis,
                trust=observation.trust,
                text=clip(sample.text),
            )
        return evidence_id

    def entries(self) -> list[Evidence]:
        """Return all cited evidence by place."""
        return sorted(self._entries.values(), key=lambda e: (e.uri, e.byte_offset, e.evidence_id))


def _strength(observation: Observation) -> tuple[object, ...]:
    trust = {"platform": 0, "node": 0, "workload": 1, "caller": 2}[observation.trust]
    origin = observation.first.origin
    claim = 1 if observation.rule == "engine" else 0
    return (
        claim, trust, origin.uri, origin.byte_offset, observation.rule, observation.symptom,
        observation.first.text, observation.last.origin.byte_offset,
    )  # fmt: skip


def clip(text: str) -> str:
    """Return the text within the ceiling, its loss marked."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
