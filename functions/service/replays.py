"""A stored result judged again with other rules: what its observations say under them.

Observations stay as they were extracted, so only rules with the same signatures can judge them
(`reasoning`). Others read the excerpts that were kept of the evidence (`capsule`), and their
verdict says that it rests on less. Where none were kept the answer is that they cannot (`none`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from engine.model.canonical import digest
from engine.model.plan import ManifestEntry, Plan
from engine.model.verdict import Verdict
from functions.adapters.keys import plan_key
from functions.adapters.object_store import ObjectMissingError, ObjectStore
from functions.adapters.results import Result, Results
from functions.adapters.results_table import ResultsTable
from functions.attribute.again import Again, ReadingAgain
from functions.attribute.gathering import Gathered, Gathering
from functions.attribute.isolation import Attribute, attribute_isolated
from functions.attribute.judging import MAX_COLLECTIONS
from functions.attribute.revision import changed_fields
from functions.scope.claiming import Claims
from functions.service.answers import ReattributionAnswer
from functions.service.judgement import Book
from functions.service.present import ruleset_answer
from functions.service.problems import missing
from functions.service.results import result_id


@dataclass(slots=True, frozen=True)
class Replays:
    """Judges stored results again. `attribute` is the engine."""

    store: ObjectStore
    table: ResultsTable
    attribute: Attribute

    def answer(
        self,
        result: Result,
        book: Book,
        *,
        results: Results,
        is_out_of_time: Callable[[], bool] = lambda: False,
    ) -> ReattributionAnswer:
        """Return what `book` says of the evidence of the newest generation."""
        name = result_id(result.attempt_key)
        plans, entry = self._plans(result)
        if not plans or entry is None:
            raise missing(f"evidence of result {name} any more")

        def recall() -> Again:
            reading = ReadingAgain(self.store, book.rules, lambda: book.scanner, is_out_of_time)
            return reading.gather(plans, from_capsules=True)

        if {plan.extraction_digest for plan in plans} != {book.rules.extraction_digest}:
            why = "the observations were extracted with other signatures"
            return self._recalled(result, book, recall(), results=results, why=why)
        gathered = Gathering(self.store, book.rules, False).gather(plans, entry, {})
        if gathered.is_gone:
            why = "the observations are not stored any more"
            return self._recalled(result, book, recall(), results=results, why=why)
        verdict = self._judge(result, book, gathered)
        manifest = gathered.manifest(plans[-1].collection).model_dump(mode="json")
        is_same = digest(manifest) == result.manifest_digest
        return ReattributionAnswer(
            result_id=name,
            revision=result.revision,
            mode="reasoning",
            reason=None if is_same else "the revision was judged on other evidence than is there",
            ruleset=ruleset_answer(book),
            changed=list(changed_fields(results.verdict(result), verdict)),
            verdict=verdict,
        )

    def _recalled(
        self, result: Result, book: Book, again: Again, *, results: Results, why: str
    ) -> ReattributionAnswer:
        """Judge the excerpts that were kept, where there are any."""
        told = again.told()
        verdict = self._judge(result, book, again.gathered) if again.recalled else None
        return ReattributionAnswer(
            result_id=result_id(result.attempt_key),
            revision=result.revision,
            mode="none" if verdict is None else "capsule",
            reason=f"{why}; collect again" if verdict is None else f"{why}; {told}",
            ruleset=ruleset_answer(book),
            changed=list(changed_fields(results.verdict(result), verdict)) if verdict else [],
            verdict=verdict,
        )

    def _judge(self, result: Result, book: Book, gathered: Gathered) -> Verdict:
        claim = self.table.read_claim(result.attempt_key)
        claims = Claims(self.store, self.table)
        signal = None if claim is None else claims.read_scope(claim).detection_signal
        case = gathered.case(detection_signal=signal)
        return attribute_isolated(case, book.rules, self.attribute)

    def _plans(self, result: Result) -> tuple[list[Plan], ManifestEntry | None]:
        plans: list[Plan] = []
        entry = None
        for collection in range(1, min(result.collection or 1, MAX_COLLECTIONS) + 1):
            key = plan_key(result.attempt_key, result.generation or 1, collection)
            try:
                body, stored = self.store.get(key)
            except ObjectMissingError:
                continue
            plans.append(Plan.model_validate_json(body))
            entry = ManifestEntry(key=key, version=stored.version, sha256=stored.sha256)
        return plans, entry
