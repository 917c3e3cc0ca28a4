"""What a job-recovery controller asks: what is known by now, within a time that it sets.

The answer says where it comes from and whether waiting could bring more. It never waits longer
than `MAX_WAIT_MS`, because API Gateway gives up after 30 s.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from connectors.protocol import ConnectorError
from connectors.schedulers.scoped import ScopedEvent
from engine.model.event import ATTRIBUTION_REQUESTED, JOB_COMPLETED, SOURCE
from engine.model.moment import parse_rfc3339, to_us
from engine.model.verdict import Verdict
from functions.adapters.object_store import ObjectMissingError
from functions.adapters.results import Result, Results
from functions.scope.admission import merge
from functions.service.access import Caller
from functions.service.answers import NodeAdvice, RecoveryAnswer
from functions.service.judgement import Book, Judged, Judgement
from functions.service.requests import (
    RecoveryRequest,
    SessionRequest,
    StatementRequest,
    WorkloadBody,
)
from functions.service.results import result_id
from functions.service.sessions import Session, Sessions

MAX_WAIT_MS: Final = 25_000
_POLL_S: Final = 0.5
_MARGIN_S: Final = 0.2
"""Kept back of the caller's time to reason and to answer."""
_WAITING: Final = 0.75
"""Of the time, spent on waiting for the pipeline; the rest reads what the session itself holds."""

PutEvent = Callable[[str, str, dict[str, Any]], None]
"""Puts one event: source, detail type, detail."""


@dataclass(slots=True, frozen=True)
class Recovery:
    """Answers recovery controllers. `clock` counts seconds from anywhere."""

    sessions: Sessions
    judgement: Judgement
    put_event: PutEvent
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    max_wait_ms: int = MAX_WAIT_MS

    def answer(
        self,
        caller: Caller,
        request: RecoveryRequest,
        *,
        results: Results,
        book: Book,
        open_session: Callable[[SessionRequest], str],
    ) -> RecoveryAnswer:
        """Open or continue a session, have evidence collected, and answer in time."""
        seconds = min(request.timeout_ms, self.max_wait_ms) / 1000 - _MARGIN_S
        deadline = self.clock() + seconds
        patience = self.clock() + seconds * _WAITING
        name = request.continue_session
        if name is None:
            name = open_session(opening(request))
        else:
            self.sessions.state(caller.tenant, name, _statement(request))
        session = self.sessions.read(caller.tenant, name)
        waiting = self._collect(session)
        found = self._result(session.attempt_key, results, request=request, deadline=patience)
        if found is not None:
            result, verdict = found
            if result.status == "provisional":
                waiting.append("the second collection")
            elif result.status is not None:
                waiting = []
            return _advice(request, name, verdict, waiting, result=result)
        judged = self.judgement.judge(
            session, book, is_out_of_time=lambda: self.clock() >= deadline
        )
        return _advice(request, name, judged.verdict, [*waiting, *_uncovered(judged)])

    def _collect(self, session: Session) -> list[str]:
        """Ask the pipeline for this attempt; the same request again changes nothing."""
        scope = merge(session.statement_list)
        event = ScopedEvent(origin="rest", workload=scope.workload)
        detail: dict[str, Any] = {
            "version": 1,
            "workload": event.workload.model_dump(
                mode="json", exclude_unset=True, exclude_none=True
            ),
        }
        kind = JOB_COMPLETED
        if scope.detection_signal is not None:
            kind = ATTRIBUTION_REQUESTED
            detail["detection_signal"] = scope.detection_signal
        try:
            self.put_event(SOURCE, kind, detail)
        except ConnectorError as error:
            return [f"a collection, which could not be started: {error}"]
        return ["the collection"]

    def _result(
        self, key: str, results: Results, *, request: RecoveryRequest, deadline: float
    ) -> tuple[Result, Verdict] | None:
        """Return what the pipeline knows: at once, or in the slow phase when it is final."""
        while True:
            found = results.current(key)
            is_enough = found is not None and (
                request.phase == "fast" or found.status != "provisional"
            )
            if is_enough or request.phase == "fast" or self.clock() + _POLL_S >= deadline:
                break
            self.sleep(_POLL_S)
        if found is None:
            return None
        try:
            return found, results.verdict(found)
        except ObjectMissingError:
            return None


def opening(request: RecoveryRequest) -> SessionRequest:
    """Return the session that a request opens."""
    context, scope = request.workload_context, request.scope
    given = {
        "scheduler": context.scheduler,
        "cluster": context.cluster,
        "job_id": request.workload_id,
        "attempt": context.attempt_index or 0,
        "name": context.workflow_id,
        "state": context.state,
        "exit_code": context.exit_code,
        "start": scope.start_time,
        "end": context.job_end_time,
        "nodes": scope.nodes or None,
    }
    workload = WorkloadBody.model_validate({k: v for k, v in given.items() if v is not None})
    return SessionRequest(
        workload=workload, detection_signal=request.failure_context.detection_signal
    )


def _statement(request: RecoveryRequest) -> StatementRequest:
    context, scope = request.workload_context, request.scope
    given: dict[str, Any] = {
        "state": context.state,
        "exit_code": context.exit_code,
        "start": scope.start_time,
        "end": context.job_end_time,
        "nodes": scope.nodes or None,
        "detection_signal": request.failure_context.detection_signal,
    }
    return StatementRequest.model_validate({k: v for k, v in given.items() if v is not None})


def _uncovered(judged: Judged) -> list[str]:
    waiting = []
    if judged.is_out_of_time:
        waiting.append("time to read what the session holds")
    if judged.pending:
        waiting.append(f"{len(judged.pending)} announced uploads")
    return waiting


def _advice(
    request: RecoveryRequest,
    session: str,
    verdict: Verdict,
    waiting: list[str],
    *,
    result: Result | None = None,
) -> RecoveryAnswer:
    wanted = set(request.scope.nodes)
    ranks = set(request.scope.ranks)
    proven = [
        action.target or "" for action in verdict.actions if action.evidence_supports_automation
    ]
    nodes = [
        NodeAdvice(
            node=each.node,
            role=each.role,
            ranks=list(each.ranks),
            in_scope=(not wanted or each.node in wanted)
            and (not ranks or not each.ranks or bool(ranks & set(each.ranks))),
            reasons=list(each.reasons),
        )
        for each in verdict.affected_nodes
    ]
    return RecoveryAnswer(
        continue_session=session,
        phase=request.phase,
        is_final=not waiting,
        answered_from="session" if result is None else "result",
        waiting_for=waiting,
        detection_signal=request.failure_context.detection_signal,
        terminal_state=verdict.terminal_state,
        domain=verdict.domain,
        failure_class=verdict.failure_class,
        quality=verdict.quality.level,
        reasons=list(verdict.quality.reasons),
        summary=verdict.summary,
        in_window=_in_window(request, verdict),
        nodes=nodes,
        exclude_nodes=sorted(
            each.node
            for each in nodes
            if each.role == "culprit"
            and any(target.split("/", 1)[0] == each.node for target in proven)
        ),
        actions=list(verdict.actions),
        attribution_id=verdict.attribution_id,
        result_id=None if result is None else result_id(result.attempt_key),
        revision=None if result is None else result.revision,
    )


def _in_window(request: RecoveryRequest, verdict: Verdict) -> bool | None:
    """Whether the cause may have begun inside the window; None where one of them is not known."""
    start, end = request.scope.start_time, request.scope.end_time
    primary = next((each for each in verdict.root_causes if each.primary), None)
    if primary is None or (start is None and end is None):
        return None
    onset = primary.onset
    if onset.earliest is None and onset.latest is None:
        return None
    is_early = start is not None and onset.latest is not None and _us(onset.latest) < _us(start)
    is_late = end is not None and onset.earliest is not None and _us(onset.earliest) > _us(end)
    return not (is_early or is_late)


def _us(text: str) -> int:
    return to_us(parse_rfc3339(text))
