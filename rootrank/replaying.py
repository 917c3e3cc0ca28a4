"""Stored verdicts, judged again with other rules: what would they say today?

`reasoning`: the stored observations, exactly as they were, where the new rules have the same
signatures. `source`: the evidence read again, where it still lies in the bucket; what came from a
site's own sources is not asked for again, and read from excerpts. `capsule`: all of it from
excerpts, which is partial. `none`: nothing of it can be had.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from connectors.protocol import ConnectorError
from connectors.schedulers.scoped import ScopedEvent
from engine.extract.scanner import Scanner
from engine.model.plan import ManifestEntry, Plan
from engine.model.verdict import Verdict
from engine.pipeline import attribute
from engine.rulebook.book import Rulebook
from functions.adapters.keys import event_key, plan_key
from functions.adapters.object_store import ObjectMissingError, ObjectStore
from functions.adapters.results import Result, Results
from functions.adapters.results_table import ResultsTable
from functions.attribute.again import IN_PLAN, Again, ReadingAgain, key_of
from functions.attribute.gathering import Gathering
from functions.attribute.isolation import attribute_isolated
from functions.attribute.judging import MAX_COLLECTIONS
from functions.attribute.revision import changed_fields
from functions.scope.admission import merge

Mode = Literal["reasoning", "source", "capsule", "none"]
Wanted = Literal["auto", "reasoning", "source", "capsule"]

_TOLD: Final = ("terminal_state", "manifestation", "domain", "failure_class")


@dataclass(slots=True, frozen=True)
class Replayed:
    """What became of one result. `differences` maps a field to (before, after), as text."""

    attempt_key: str
    revision: int
    mode: Mode
    reason: str | None
    rules_before: str
    rules_after: str
    changed: tuple[str, ...] = ()
    differences: dict[str, tuple[str, str]] = field(default_factory=dict)
    verdict: Verdict | None = None

    def row(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "attempt_key": self.attempt_key,
            "revision": self.revision,
            "mode": self.mode,
            "reason": self.reason,
            "rules": [self.rules_before, self.rules_after],
            "changed": list(self.changed),
            "differences": {name: list(pair) for name, pair in sorted(self.differences.items())},
        }


@dataclass(slots=True, frozen=True)
class Replaying:
    """Judges results of one deployment again."""

    results: Results
    book: Rulebook
    scanner: Callable[[], Scanner]

    @property
    def store(self) -> ObjectStore:
        """The bucket."""
        return self.results.store

    def replay(self, result: Result, wanted: Wanted) -> Replayed:
        """Judge one result again; a result that cannot be is answered with mode `none`."""
        plans = self._plans(result)
        if not plans:
            return self._answer(result, "none", "its plan and evidence are not stored any more")
        is_same = {plan.extraction_digest for plan in plans} == {self.book.extraction_digest}
        if wanted == "reasoning" and not is_same:
            reason = "its observations were extracted with other signatures; use --mode source"
            return self._answer(result, "none", reason)
        if is_same and wanted in ("auto", "reasoning"):
            verdict = self._reason(plans)
            if verdict is not None:
                return self._answer(result, "reasoning", None, verdict=verdict)
            if wanted == "reasoning":
                return self._answer(result, "none", "its observations are not stored any more")
        return self._read_again(result, plans, wanted)

    def _read_again(self, result: Result, plans: list[Plan], wanted: Wanted) -> Replayed:
        """Judge what the new signatures find: in the source if it is there, else in excerpts."""
        missing = "not looked at" if wanted == "capsule" else self._unreadable(plans)
        has_source = wanted == "source" or self._has_source(plans)
        reading = ReadingAgain(self.store, self.book, self.scanner)
        if missing is None and has_source:
            return self._judged(result, "source", reading.gather(plans, from_capsules=False))
        if wanted != "source":
            again = reading.gather(plans, from_capsules=True)
            if again.recalled:
                return self._judged(result, "capsule", again)
        if missing is None:
            return self._judged(result, "source", reading.gather(plans, from_capsules=False))
        if wanted == "capsule":
            missing = "no excerpts of its evidence are stored"
        return self._answer(result, "none", missing)

    def _judged(self, result: Result, mode: Mode, again: Again) -> Replayed:
        case = again.gathered.case(detection_signal=self._signal(result.attempt_key))
        verdict = attribute_isolated(case, self.book, attribute)
        return self._answer(result, mode, again.told(), verdict=verdict)

    def _answer(
        self, result: Result, mode: Mode, reason: str | None, *, verdict: Verdict | None = None
    ) -> Replayed:
        changed: tuple[str, ...] = ()
        differences: dict[str, tuple[str, str]] = {}
        if verdict is not None:
            before = self.results.verdict(result)
            changed = changed_fields(before, verdict)
            differences = _differences(before, verdict)
        return Replayed(
            result.attempt_key,
            result.revision,
            mode,
            reason,
            result.rules_version or "",
            self.book.version,
            changed,
            differences,
            verdict,
        )

    def _plans(self, result: Result) -> list[Plan]:
        found = []
        # A person's correction has a collection of its own, which no plan has.
        for collection in range(1, min(result.collection or 1, MAX_COLLECTIONS) + 1):
            key = plan_key(result.attempt_key, result.generation or 1, collection)
            try:
                found.append(Plan.model_validate_json(self.store.get(key)[0]))
            except ObjectMissingError:
                continue
        return found

    def _reason(self, plans: list[Plan]) -> Verdict | None:
        """Judge the stored observations; None where they are gone, though their plan is not."""
        entry = ManifestEntry(key="", sha256="")
        gathered = Gathering(self.store, self.book, False).gather(plans, entry, {})
        if gathered.is_gone:
            return None
        case = gathered.case(detection_signal=self._signal(plans[0].attempt_key))
        return attribute_isolated(case, self.book, attribute)

    def _signal(self, key: str) -> str | None:
        """Return what the attempt's watcher noticed while it ran, from its stored events."""
        claim = ResultsTable(self.results.query.client, self.results.query.name).read_claim(key)
        if claim is None:
            return None
        bodies = [self.store.get(event_key(key, name))[0] for name in sorted(claim.events)]
        return merge(ScopedEvent.model_validate_json(body) for body in bodies).detection_signal

    def _unreadable(self, plans: Sequence[Plan]) -> str | None:
        """Return why the evidence cannot be read again, None where it can."""
        items = [item for plan in plans for item in plan.items]
        for uri in sorted({item.base_uri for item in items if item.base_uri}):
            if next(iter(self.store.list_objects(key_of(uri))), None) is None:
                return f"its bundle {uri} is not stored any more"
        return None

    def _has_source(self, plans: Sequence[Plan]) -> bool:
        """Whether anything of a site's evidence lies in the bucket, or nothing else was read."""
        items = [item for plan in plans for item in plan.items if item.connector not in IN_PLAN]
        return not items or any(item.base_uri for item in items)


def replay_all(replaying: Replaying, results: Sequence[Result], wanted: Wanted) -> list[Replayed]:
    """Judge results again; one that fails does not stop the others."""
    found = []
    for result in results:
        try:
            found.append(replaying.replay(result, wanted))
        except ConnectorError as error:
            found.append(
                Replayed(
                    result.attempt_key, result.revision, "none", str(error),
                    result.rules_version or "", replaying.book.version,
                )
            )  # fmt: skip
    return found


def _differences(before: Verdict, after: Verdict) -> dict[str, tuple[str, str]]:
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in _TOLD}
    pairs["quality"] = (before.quality.level, after.quality.level)
    pairs["culprits"] = (_culprits(before), _culprits(after))
    pairs["actions"] = (_actions(before), _actions(after))
    return {name: (old, new) for name, (old, new) in pairs.items() if old != new}


def _culprits(verdict: Verdict) -> str:
    return ", ".join(sorted(n.node for n in verdict.affected_nodes if n.role == "culprit"))


def _actions(verdict: Verdict) -> str:
    return ", ".join(sorted({f"{a.action} {a.target or ''}".strip() for a in verdict.actions}))
