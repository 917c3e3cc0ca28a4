"""From what the service knows to what callers get, and the few readings of what they send."""

import base64
import binascii
from typing import Final

from engine.model.moment import parse_rfc3339, rfc3339, to_us
from functions.scope.admission import merge
from functions.service.answers import (
    Covers,
    Limits,
    PendingChunk,
    RulesetAnswer,
    SessionAnswer,
    SetAsideChunk,
    StreamCovered,
    VerdictAnswer,
)
from functions.service.judgement import Book, Judged
from functions.service.problems import FieldError, ProblemError
from functions.service.requests import (
    MAX_INLINE_BYTES,
    MAX_OBSERVATIONS,
    MAX_UPLOAD_BYTES,
    ChunkRequest,
)
from functions.service.sessions import MAX_PARTS, MAX_SESSION_BYTES, Session

MAX_LISTED: Final = 1000
"""Ids that an answer lists; the rest is counted, and the digest covers all."""


def session_answer(session: Session) -> SessionAnswer:
    """Return a session as its caller sees it."""
    workload = merge(session.statement_list).workload
    return SessionAnswer(
        session_id=session.session_id,
        cluster=workload.cluster,
        scheduler=workload.scheduler,
        job_id=workload.job_id,
        attempt=workload.attempt,
        state=workload.state,
        created_at=session.created_at,
        expires_at=session.expires_at,
        statements=len(session.statements),
        chunks=len(session.chunks),
        batches=len(session.batches),
        limits=Limits(
            inline_bytes=MAX_INLINE_BYTES,
            upload_bytes=MAX_UPLOAD_BYTES,
            session_parts=MAX_PARTS,
            session_bytes=MAX_SESSION_BYTES,
            observations_per_request=MAX_OBSERVATIONS,
        ),
    )


def ruleset_answer(book: Book) -> RulesetAnswer:
    """Return which rules a book holds."""
    return RulesetAnswer(
        name=book.name,
        version=book.rules.version,
        extraction_digest=book.rules.extraction_digest,
        reasoning_digest=book.rules.reasoning_digest,
        trouble=book.trouble,
    )


def verdict_answer(session: Session, book: Book, judged: Judged) -> VerdictAnswer:
    """Return a verdict with exactly what it covers."""
    chunks, observations = judged.chunk_ids, judged.observation_ids
    is_whole = all(run.report.status in ("ok", "empty") for run in judged.runs)
    covers = Covers(
        digest=judged.digest,
        is_complete=is_whole and not judged.pending and not judged.set_aside,
        statements=len(session.statements),
        chunks=chunks[:MAX_LISTED],
        chunks_omitted=max(0, len(chunks) - MAX_LISTED),
        observations=observations[:MAX_LISTED],
        observations_omitted=max(0, len(observations) - MAX_LISTED),
        streams=[
            StreamCovered.model_validate(
                {
                    "uri": run.uri,
                    "source": run.report.source,
                    "start": run.start,
                    "end": run.end,
                    "status": run.report.status,
                    "reason": run.report.reason,
                    "lines": run.report.lines,
                }
            )
            for run in judged.runs
        ],
        pending=[
            PendingChunk(chunk_id=each.chunk_id, path=each.stream.path, bytes=each.size)
            for each in judged.pending
        ],
        set_aside=[
            SetAsideChunk(chunk_id=each.chunk_id, reason=each.reason) for each in judged.set_aside
        ],
    )
    return VerdictAnswer(
        session_id=session.session_id,
        ruleset=ruleset_answer(book),
        covers=covers,
        verdict=judged.verdict,
    )


def bytes_of(request: ChunkRequest) -> bytes:
    """Return the bytes of a chunk; raises `ProblemError` where there are not exactly one form's."""
    if (request.text is None) == (request.data is None):
        raise ProblemError(
            422,
            "a chunk has either `text` or `data`",
            "give `text` for UTF-8, `data` in base64 for anything else",
            errors=[FieldError(where="body", why="both or neither of text and data are given")],
        )
    if request.text is not None:
        data = request.text.encode()
    else:
        try:
            data = base64.b64decode(request.data or "", validate=True)
        except (binascii.Error, ValueError) as error:
            raise ProblemError(
                422,
                "`data` is no base64",
                "encode the bytes with the standard alphabet and padding",
                errors=[FieldError(where="body.data", why=str(error))],
            ) from error
    if not data or len(data) > MAX_INLINE_BYTES:
        raise ProblemError(
            413,
            f"the chunk has {len(data)} bytes; a request takes 1 to {MAX_INLINE_BYTES}",
            "announce it at /uploads and send the bytes to the URL that comes back",
        )
    return data


def utc(text: str | None) -> str | None:
    """Return a time as the table spells times: RFC 3339 in UTC."""
    if text is None:
        return None
    try:
        return rfc3339(to_us(parse_rfc3339(text.upper())))
    except ValueError as error:
        raise ProblemError(
            422,
            "there is no such day or time",
            "give a time such as 2026-01-31T12:00:00Z",
            errors=[FieldError(where="query", why=str(error))],
        ) from error
