"""What a verdict itself calls its symptoms: titles from its causes and its timeline."""

import re
from typing import Final

from engine.model.verdict import EntityRef, Verdict
from functions.query.plain import words

_TIMES: Final = re.compile(r" \(\d+ times\)$")
"""`A worker aborted (3 times)`."""


def symptom_titles(verdict: Verdict) -> dict[str, str]:
    """Return a title for every symptom, in the verdict's own words where it has some."""
    by_evidence = {
        evidence: _TIMES.sub("", entry.text)
        for entry in verdict.timeline
        if entry.kind not in ("gap", "start", "end", "progress")
        for evidence in entry.evidence
    }
    titles: dict[str, str] = {cause.symptom: cause.title for cause in verdict.root_causes}
    for symptom in verdict.symptoms:
        if symptom.symptom in titles:
            continue
        told = (by_evidence[each] for each in symptom.evidence if each in by_evidence)
        title = next(told, None)
        if title:
            titles[symptom.symptom] = title
    for symptom in verdict.symptoms:
        titles.setdefault(symptom.symptom, words(symptom.symptom).capitalize())
    return titles


def entity_name(entity: EntityRef) -> str:
    """Return an entity in words: `GPU 2 (0000:30:00) of node-007`."""
    place = f" of {entity.node}" if entity.node and entity.kind != "node" else ""
    if entity.kind == "job":
        return "the job"
    if entity.kind == "gpu":
        index = f" {entity.index}" if entity.index is not None else ""
        name = entity.pci or entity.uuid or entity.serial
        return f"GPU{index}{f' ({name})' if name else ''}{place}"
    return f"{words(entity.kind)} {entity.id}{place}"
