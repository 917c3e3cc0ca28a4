"""A person's correction of a verdict: a revision like any other, and never a reason to act.

What the person says is evidence of the trust `caller`; no action of a corrected verdict supports
automation, so a subscriber that acts on messages is not started a second time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from engine.extract.redact import Redactor
from engine.model.canonical import canonical_json, digest, short_id
from engine.model.envelope import Envelope
from engine.model.moment import rfc3339, to_us
from engine.model.verdict import Verdict, seal
from engine.model.vocabulary import NODE_CULPRIT_DOMAINS
from functions.adapters.keys import envelope_key, verdict_key
from functions.adapters.notifier import Notifier
from functions.adapters.object_store import ObjectConflictError, ObjectStore
from functions.adapters.results_table import CURRENT, Item, ResultsTable, RevisionConflictError
from functions.attribute.judging import revision_items
from functions.attribute.publishing import PublishTask, announce
from functions.attribute.revision import changed_fields
from functions.service.answers import CorrectionAnswer
from functions.service.problems import FieldError, ProblemError, missing
from functions.service.requests import CorrectionRequest

RULE: Final = "correction"
AFTER_COLLECTIONS: Final = 99
"""The collection number of a correction: no later pass of the same generation replaces it."""
_JSON: Final = "application/json"


@dataclass(slots=True, frozen=True)
class Corrections:
    """Corrections over their stores."""

    store: ObjectStore
    table: ResultsTable
    notifier: Notifier
    now: Callable[[], datetime]
    result_days: int
    redactor: Redactor

    def correct(
        self, attempt_key: str, result: str, request: CorrectionRequest, *, by: str
    ) -> CorrectionAnswer:
        """Store the correction as the next revision and announce it; twice is as once."""
        held = self.table.get(attempt_key, CURRENT)
        if held is None:
            raise missing(f"result {result}")
        envelope = Envelope.model_validate_json(self.store.get(held["envelope_key"])[0])
        statement = self._statement(request)
        if envelope.corrected_by is not None and envelope.manifest_digest == digest(statement):
            return self._answer(result, envelope, is_new=False)
        if held["revision"] != request.expected_revision:
            raise ProblemError(
                409,
                f"the result is at revision {held['revision']}, the correction was made of "
                f"{request.expected_revision}",
                "read the newest revision, and correct that one if it is still wrong",
            )
        _check(request, envelope.verdict)
        verdict = corrected(envelope.verdict, statement)
        try:
            stored = self._store(held, envelope, verdict, statement, by=by)
        except RevisionConflictError as error:
            raise ProblemError(
                409, "another revision came in between", "read the newest revision and try again"
            ) from error
        return self._answer(result, stored, is_new=True)

    def _statement(self, request: CorrectionRequest) -> dict[str, Any]:
        """Return what the person says, without secrets: the evidence of the revision."""
        said = request.model_dump(mode="json", exclude={"expected_revision"}, exclude_none=True)
        mask = self.redactor.text
        return {**said, "title": mask(said["title"]), "reason": mask(said["reason"])}

    def _store(
        self,
        held: Item,
        before: Envelope,
        verdict: Verdict,
        statement: dict[str, Any],
        *,
        by: str,
    ) -> Envelope:
        now = self.now()
        key = before.attempt_key
        document = verdict_key(key, verdict.attribution_id)
        self.store.put_once(
            document, canonical_json(verdict.model_dump(mode="json")), content_type=_JSON
        )
        where = envelope_key(key, before.revision + 1, digest(statement))
        envelope = Envelope(
            attempt_key=key,
            revision=before.revision + 1,
            status="correction",
            supersedes=before.revision,
            changed=changed_fields(before.verdict, verdict),
            published_at=rfc3339(to_us(now)),
            locations={"verdict": self.store.uri(document), "envelope": self.store.uri(where)},
            manifest_digest=digest(statement),
            verdict=verdict,
            corrected_by=by,
        )
        body = canonical_json(envelope.model_dump(mode="json"))
        try:
            self.store.put_once(where, body, content_type=_JSON)
        except ObjectConflictError:
            envelope = Envelope.model_validate_json(self.store.get(where)[0])
        expires_at = int(now.timestamp()) + self.result_days * 86_400
        order = {"generation": held["generation"], "collection": AFTER_COLLECTIONS}
        self.table.move_current(
            revision_items(
                envelope, held, document=document, where=where, order=order, expires_at=expires_at
            )
        )
        return envelope

    def _answer(self, result: str, envelope: Envelope, *, is_new: bool) -> CorrectionAnswer:
        """Announce (consumers de-duplicate on attempt and revision) and return the answer."""
        task = PublishTask(attempt_key=envelope.attempt_key, revision=envelope.revision)
        announce(task, self.store, self.table, notifier=self.notifier)
        return CorrectionAnswer(
            result_id=result,
            revision=envelope.revision,
            supersedes=envelope.supersedes or 0,
            status=envelope.status,
            is_new=is_new,
            is_announced=True,
        )


def corrected(verdict: Verdict, said: dict[str, Any]) -> Verdict:
    """Return the verdict as a person corrects it. Pure, and sealed like every other."""
    statement = short_id("ev", RULE, said["title"], said["reason"])
    cites = [statement, *said["evidence"]]
    named = {each["node"]: each["role"] for each in said["nodes"]}
    fields = verdict.model_dump(mode="json")
    has_cause = said["domain"] not in ("none", "unknown")
    level = said["quality"] if has_cause else _level_without_cause(said["domain"])
    fields |= {
        "terminal_state": said.get("terminal_state", verdict.terminal_state),
        "domain": said["domain"],
        "failure_class": said["failure_class"],
        "root_causes": [_cause(verdict, said, named, cites)] if has_cause else [],
        "quality": {"level": level, "reasons": ["corrected_by_person"], "would_change": []},
        "summary": f"A person corrected this verdict: {said['title'].rstrip('.')}. "
        f"Before, it said {verdict.failure_class} ({verdict.domain}).",
        "actions": [
            {
                "action": "none", "target": verdict.workload.job_id,
                "reason": "a person corrected this verdict; act on what they found",
                "evidence_supports_automation": False,
            }
        ],
        "affected_nodes": _nodes(fields["affected_nodes"], named),
        "affected_ranks": [_demoted(each) for each in fields["affected_ranks"]],
        "affected_entities": _entities(fields["affected_entities"], named, cites),
        "evidence": [*fields["evidence"], _evidence(statement, said)],
    }  # fmt: skip
    return seal(fields)


def _check(request: CorrectionRequest, verdict: Verdict) -> None:
    """Refuse what no verdict may say (CONTRACTS, section 2)."""
    errors = []
    accuses = any(each.role == "culprit" for each in request.nodes)
    if accuses and request.domain not in NODE_CULPRIT_DOMAINS:
        errors.append(
            FieldError(where="body.nodes", why=f"no node is a culprit for a {request.domain} cause")
        )
    if request.nodes and request.domain == "none":
        errors.append(FieldError(where="body.nodes", why="a job that did not fail has none"))
    known = {each.evidence_id for each in verdict.evidence}
    unknown = sorted(set(request.evidence) - known)
    if unknown:
        errors.append(
            FieldError(where="body.evidence", why=f"the verdict has no evidence {unknown[0]}")
        )
    if errors:
        raise ProblemError(422, "no verdict may say this", "mend the named fields", errors=errors)


def _level_without_cause(domain: str) -> str:
    return "definitive" if domain == "none" else "insufficient"


def _cause(
    verdict: Verdict, said: dict[str, Any], named: dict[str, str], cites: list[str]
) -> dict[str, Any]:
    culprits = sorted(node for node, role in named.items() if role == "culprit")
    entity = {"kind": "job", "id": verdict.workload.job_id}
    if culprits:
        entity = {"kind": "node", "id": culprits[0], "node": culprits[0]}
    return {
        "cause_id": short_id("c", RULE, said["failure_class"], *culprits),
        "primary": True,
        "symptom": said["failure_class"],
        "rule": RULE,
        "domain": said["domain"],
        "title": said["title"],
        "explanation": said["reason"],
        "entity": entity,
        "quality": said["quality"],
        "evidence": cites,
    }


def _demoted(part: dict[str, Any]) -> dict[str, Any]:
    """Return a part that nobody accuses any more."""
    return {**part, "role": "observed"} if part["role"] in ("culprit", "suspect") else part


def _nodes(before: list[dict[str, Any]], named: dict[str, str]) -> list[dict[str, Any]]:
    known = {each["node"] for each in before}
    nodes = [
        {
            **_demoted(each),
            "gpus": [_demoted(gpu) for gpu in each["gpus"]],
            **({"role": named[each["node"]]} if each["node"] in named else {}),
        }
        for each in before
    ]
    new = [{"node": node, "role": named[node]} for node in sorted(set(named) - known)]
    return sorted([*nodes, *new], key=lambda each: str(each["node"]))


def _entities(
    before: list[dict[str, Any]], named: dict[str, str], cites: list[str]
) -> list[dict[str, Any]]:
    kept = [_demoted(e) for e in before if not (e["kind"] == "node" and e["id"] in named)]
    new = [
        {"kind": "node", "id": node, "node": node, "role": named[node], "evidence": cites}
        for node in sorted(named)
    ]
    return [*kept, *new]


def _evidence(name: str, said: dict[str, Any]) -> dict[str, Any]:
    """Return the person's words as evidence: told of the machine room, like an inventory."""
    text = said["reason"]
    return {
        "evidence_id": name, "source": "inventory", "connector": RULE, "uri": RULE, "line": 1,
        "byte_offset": 0, "byte_length": len(text.encode()), "time_basis": "none",
        "trust": "caller", "text": text,
    }  # fmt: skip
