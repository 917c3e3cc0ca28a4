"""The routes: what each takes and gives. OpenAPI is generated from this module and the models."""

from typing import Annotated, Any, Final

from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from aws_lambda_powertools.event_handler.openapi.params import Header, Path, Query

from engine.model.canonical import canonical_json
from engine.model.vocabulary import Domain, QualityLevel, TerminalState
from functions.adapters.results import Selection
from functions.service import present
from functions.service.access import Caller
from functions.service.answers import (
    Answer,
    CorrectionAnswer,
    ReattributionAnswer,
    Receipt,
    RecoveryAnswer,
    ResultAnswer,
    ResultPage,
    RevisionPage,
    SessionAnswer,
    UploadAnswer,
    VerdictAnswer,
)
from functions.service.idempotency import once
from functions.service.problems import PROBLEM_JSON, TITLES, Problem
from functions.service.requests import (
    AttributionRequest,
    ChunkRequest,
    CorrectionRequest,
    Name,
    ObservationsRequest,
    RecoveryRequest,
    Ruleset,
    SessionRequest,
    StatementRequest,
    Time,
    UploadRequest,
    Word,
)
from functions.service.results import RESULT_ID, ResultDesk, attempt_of
from functions.service.service import Service
from functions.service.sessions import chunk_of

SESSION_ID: Final = r"^ses_[0-9a-f]{32}$"
_JSON: Final = "application/json"
_RESERVE_MS: Final = 5_000

SessionId = Annotated[str, Path(pattern=SESSION_ID, description="From opening the session.")]
ResultId = Annotated[str, Path(pattern=RESULT_ID, description="From the list of results.")]
IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=8,
        max_length=128,
        pattern=r"^[A-Za-z0-9_-]+$",
        description="The same key again answers with the same session, for a day.",
    ),
]


def build_app(service: Service) -> APIGatewayHttpResolver:
    """Return the resolver with every route; the caller is in its context as `caller`."""
    app = APIGatewayHttpResolver(
        enable_validation=True,
        serializer=lambda body: canonical_json(body).decode(),
    )
    _session_routes(app, service)
    _feeding_routes(app, service)
    _result_routes(app, service)
    _change_routes(app, service)
    _recovery_route(app, service)
    return app


def _caller(app: APIGatewayHttpResolver) -> Caller:
    caller = app.context["caller"]
    if not isinstance(caller, Caller):
        raise TypeError("the caller is not known here")
    return caller


def _responses(success: dict[int, str], model: type[Answer], *errors: int) -> Any:
    """Return what a route may answer with: its model, and problems."""
    told: dict[int, Any] = {
        status: {"description": text, "content": {_JSON: {"model": model}}}
        for status, text in success.items()
    }
    for status in sorted({400, 401, 403, 405, 500, 503, *errors}):
        content = {PROBLEM_JSON: {"model": Problem}}
        told[status] = {"description": TITLES[status], "content": content}
    return told


def _answer(status: int, body: Answer) -> Response[Any]:
    text = canonical_json(body.model_dump(mode="json")).decode()
    return Response(status_code=status, content_type=_JSON, body=text)


_BODY: Final = (404, 413, 415, 422)


def _session_routes(app: APIGatewayHttpResolver, service: Service) -> None:
    @app.post(
        "/v1/sessions",
        tags=["sessions"],
        summary="Open a session for one attempt",
        operation_id="openSession",
        responses=_responses({201: "The session"}, SessionAnswer, 409, 413, 415, 422),
    )
    def open_session(request: SessionRequest, key: IdempotencyKey = None) -> Response[Any]:
        caller = _caller(app)
        caller.require("write")
        session = once(
            service.idempotency,
            lambda: service.sessions.create(caller.tenant, request),
            tenant=caller.tenant,
            key=key,
            body=request.model_dump(mode="json", exclude_unset=True),
            context=app.lambda_context,
        )
        found = service.sessions.read(caller.tenant, session)
        return _answer(201, present.session_answer(found))

    @app.get(
        "/v1/sessions/<session_id>",
        tags=["sessions"],
        summary="What a session is and how much it holds",
        operation_id="readSession",
        responses=_responses({200: "The session"}, SessionAnswer, 404),
    )
    def read_session(session_id: SessionId) -> Response[Any]:
        caller = _caller(app)
        caller.require("read")
        found = service.sessions.read(caller.tenant, session_id)
        return _answer(200, present.session_answer(found))

    @app.get(
        "/v1/sessions/<session_id>/verdict",
        tags=["sessions"],
        summary="The verdict as of now, and exactly what it covers",
        description="Consistent: everything accepted before is covered. Judged anew each time, so "
        "another ruleset is a parameter.",
        operation_id="readVerdict",
        responses=_responses({200: "The verdict"}, VerdictAnswer, 404, 422),
    )
    def read_verdict(
        session_id: SessionId, ruleset: Annotated[Ruleset, Query()] = "site"
    ) -> Response[Any]:
        caller = _caller(app)
        caller.require("read")
        found = service.sessions.read(caller.tenant, session_id)
        book = service.rulesets.book(ruleset)
        judged = service.judgement.judge(found, book, is_out_of_time=lambda: _is_late(app))
        return _answer(200, present.verdict_answer(found, book, judged))


def _is_late(app: APIGatewayHttpResolver) -> bool:
    """Whether what is left of the function's time is needed to reason and to answer."""
    return bool(app.lambda_context.get_remaining_time_in_millis() < _RESERVE_MS)


def _feeding_routes(app: APIGatewayHttpResolver, service: Service) -> None:
    @app.post(
        "/v1/sessions/<session_id>/statements",
        tags=["sessions"],
        summary="Say what became of the attempt",
        operation_id="addStatement",
        responses=_responses({201: "Accepted", 200: "Known before"}, Receipt, 409, *_BODY),
    )
    def add_statement(session_id: SessionId, request: StatementRequest) -> Response[Any]:
        caller = _caller(app)
        caller.require("write")
        added = service.sessions.state(caller.tenant, session_id, request)
        return _receipt(session_id, [added.name], added.is_new)

    @app.post(
        "/v1/sessions/<session_id>/chunks",
        tags=["sessions"],
        summary="Add bytes of a log, in any order, any number of times",
        operation_id="addChunk",
        responses=_responses({201: "Accepted", 200: "Known before"}, Receipt, *_BODY),
    )
    def add_chunk(session_id: SessionId, request: ChunkRequest) -> Response[Any]:
        caller = _caller(app)
        caller.require("write")
        added = service.sessions.add_chunk(
            caller.tenant,
            session_id,
            request.stream,
            offset=request.offset,
            data=present.bytes_of(request),
        )
        return _receipt(session_id, [added.name], added.is_new)

    @app.post(
        "/v1/sessions/<session_id>/uploads",
        tags=["sessions"],
        summary="Announce a large chunk and get the URL that its bytes go to",
        operation_id="announceUpload",
        responses=_responses({201: "Accepted", 200: "Known before"}, UploadAnswer, *_BODY),
    )
    def announce_upload(session_id: SessionId, request: UploadRequest) -> Response[Any]:
        caller = _caller(app)
        caller.require("write")
        chunk = chunk_of(
            request.stream, offset=request.offset, size=request.bytes, sha256=request.sha256
        )
        added, key = service.sessions.announce(caller.tenant, session_id, chunk)
        signed = service.signer.sign(key, sha256=request.sha256, size=request.bytes)
        answer = UploadAnswer(
            session_id=session_id,
            chunk_id=added.name,
            is_new=added.is_new,
            url=signed.url,
            headers=signed.headers,
            expires_in_s=signed.seconds,
        )
        return _answer(201 if added.is_new else 200, answer)

    @app.post(
        "/v1/sessions/<session_id>/observations",
        tags=["sessions"],
        summary="Add observations that were extracted elsewhere",
        operation_id="addObservations",
        responses=_responses({201: "Accepted", 200: "Known before"}, Receipt, *_BODY),
    )
    def add_observations(session_id: SessionId, request: ObservationsRequest) -> Response[Any]:
        caller = _caller(app)
        caller.require("write")
        names, added = service.sessions.add_observations(
            caller.tenant, session_id, request.observations
        )
        return _receipt(session_id, names, added.is_new)


def _receipt(session: str, names: list[str], is_new: bool) -> Response[Any]:
    receipt = Receipt(session_id=session, ids=names, is_new=is_new)
    return _answer(201 if is_new else 200, receipt)


def _result_routes(app: APIGatewayHttpResolver, service: Service) -> None:
    def desk() -> ResultDesk:
        caller = _caller(app)
        caller.require("read")
        return ResultDesk(service.results(caller.tenant), caller.tenant)

    @app.get(
        "/v1/results",
        tags=["results"],
        summary="Stored results, newest first",
        operation_id="listResults",
        responses=_responses({200: "A page of results"}, ResultPage, 422),
    )
    def list_results(  # noqa: PLR0917  these are query parameters, given by name
        cluster: Annotated[Word | None, Query()] = None,
        node: Annotated[Name | None, Query()] = None,
        failure_class: Annotated[Word | None, Query()] = None,
        domain: Annotated[Domain | None, Query()] = None,
        terminal_state: Annotated[TerminalState | None, Query()] = None,
        quality: Annotated[QualityLevel | None, Query()] = None,
        since: Annotated[Time | None, Query()] = None,
        until: Annotated[Time | None, Query()] = None,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        cursor: Annotated[
            str | None, Query(min_length=1, max_length=3000, pattern=r"^[A-Za-z0-9_-]+$")
        ] = None,
    ) -> Response[Any]:
        here = desk()
        selection = Selection(
            cluster=None if cluster is None else f"{here.tenant}/{cluster}",
            node=node,
            failure_class=failure_class,
            domain=domain,
            terminal_state=terminal_state,
            quality=quality,
            since=present.utc(since),
            until=present.utc(until),
        )
        return _answer(200, here.page(selection, limit=limit, cursor=cursor))

    @app.get(
        "/v1/results/<result_id>",
        tags=["results"],
        summary="One result as it was published",
        operation_id="readResult",
        responses=_responses({200: "The revision"}, ResultAnswer, 404),
    )
    def read_result(
        result_id: ResultId,
        revision: Annotated[int | None, Query(ge=1, le=1_000_000)] = None,
    ) -> Response[Any]:
        return _answer(200, desk().answer(result_id, revision))

    @app.get(
        "/v1/results/<result_id>/revisions",
        tags=["results"],
        summary="Every revision of a result, newest first",
        operation_id="listRevisions",
        responses=_responses({200: "The revisions"}, RevisionPage, 404),
    )
    def list_revisions(result_id: ResultId) -> Response[Any]:
        return _answer(200, desk().revisions(result_id))


def _change_routes(app: APIGatewayHttpResolver, service: Service) -> None:
    @app.post(
        "/v1/results/<result_id>/attributions",
        tags=["results"],
        summary="Judge a result's evidence with another ruleset; nothing is stored",
        operation_id="reattribute",
        responses=_responses({200: "What these rules say"}, ReattributionAnswer, *_BODY),
    )
    def reattribute(result_id: ResultId, request: AttributionRequest) -> Response[Any]:
        caller = _caller(app)
        caller.require("read")
        here = ResultDesk(service.results(caller.tenant), caller.tenant)
        result = here.current(result_id)
        book = service.rulesets.book(request.ruleset)
        told = service.replays.answer(
            result, book, results=here.results, is_out_of_time=lambda: _is_late(app)
        )
        return _answer(200, told)

    @app.post(
        "/v1/results/<result_id>/corrections",
        tags=["results"],
        summary="Correct a verdict",
        description="Becomes a revision of the status `correction`; supports no automation.",
        operation_id="correct",
        responses=_responses(
            {201: "The revision", 200: "Known before"}, CorrectionAnswer, 409, *_BODY
        ),
    )
    def correct(result_id: ResultId, request: CorrectionRequest) -> Response[Any]:
        caller = _caller(app)
        caller.require("correct")
        key = attempt_of(caller.tenant, result_id)
        made = service.corrections.correct(key, result_id, request, by=caller.name)
        return _answer(201 if made.is_new else 200, made)


def _recovery_route(app: APIGatewayHttpResolver, service: Service) -> None:
    @app.post(
        "/v1/attribution",
        tags=["recovery"],
        summary="What is known of a failure by now, for a job-recovery controller",
        description="Answers within `timeout_ms`, and within 25 s at the most, with what there is; "
        "`waiting_for` says what another request with `continue_session` may find.",
        operation_id="attribute",
        responses=_responses({200: "What is known by now"}, RecoveryAnswer, 409, *_BODY),
    )
    def attribute(request: RecoveryRequest, key: IdempotencyKey = None) -> Response[Any]:
        caller = _caller(app)
        caller.require("write")

        def open_session(opening: SessionRequest) -> str:
            return once(
                service.idempotency,
                lambda: service.sessions.create(caller.tenant, opening),
                tenant=caller.tenant,
                key=key,
                body=opening.model_dump(mode="json", exclude_unset=True),
                context=app.lambda_context,
            )

        answer = service.recovery.answer(
            caller,
            request,
            results=service.results(caller.tenant),
            book=service.rulesets.book("site"),
            open_session=open_session,
        )
        return _answer(200, answer)
