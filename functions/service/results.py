"""Stored results for one tenant: lists, revisions, documents, under ids that name no tenant."""

import base64
import binascii
import re
from dataclasses import dataclass
from typing import Final

from functions.adapters.object_store import ObjectMissingError
from functions.adapters.results import CursorError, Result, Results, Selection
from functions.service.answers import (
    ResultAnswer,
    ResultPage,
    ResultRow,
    RevisionPage,
    RevisionRow,
)
from functions.service.problems import FieldError, ProblemError, missing

RESULT_ID: Final = r"^r_[A-Za-z0-9_-]{8,1200}$"
_KEY: Final = re.compile(r"[A-Za-z0-9%._~+:=,-]+(/[A-Za-z0-9%._~+:=,-]+){3}")


def result_id(attempt_key: str) -> str:
    """Return the id of an attempt's result: the tenant is left out, so none can be named."""
    rest = attempt_key.split("/", 1)[1]
    return "r_" + base64.urlsafe_b64encode(rest.encode()).decode().rstrip("=")


def attempt_of(tenant: str, name: str) -> str:
    """Return the attempt key that an id stands for with this tenant; raises `ProblemError`."""
    text = name.removeprefix("r_")
    try:
        rest = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).decode("ascii")
    except (binascii.Error, ValueError) as error:
        raise missing(f"result {name}") from error
    key = f"{tenant}/{rest}"
    is_path = not any(part in (".", "..") for part in rest.split("/"))
    if not is_path or not _KEY.fullmatch(rest) or result_id(key) != name:
        raise missing(f"result {name}")
    return key


@dataclass(slots=True, frozen=True)
class ResultDesk:
    """Answers about results of one tenant; `results` is bound to that tenant."""

    results: Results
    tenant: str

    def page(self, selection: Selection, *, limit: int, cursor: str | None) -> ResultPage:
        """Return one page, newest first."""
        try:
            page = self.results.page(selection, limit=limit, cursor=cursor)
        except CursorError as error:
            raise ProblemError(
                422,
                "the cursor is none that this service gave out",
                "begin without a cursor",
                errors=[FieldError(where="query.cursor", why=str(error))],
            ) from error
        rows = [_row(each) for each in page.results]
        return ResultPage(results=rows, next=page.cursor)

    def current(self, name: str) -> Result:
        """Return the newest revision; raises `ProblemError` where this tenant has none such."""
        found = self.results.current(attempt_of(self.tenant, name))
        if found is None:
            raise missing(f"result {name}")
        return found

    def revision(self, name: str, number: int | None) -> Result:
        """Return one revision, the newest where no number is given."""
        if number is None:
            return self.current(name)
        found = self.results.revision(attempt_of(self.tenant, name), number)
        if found is None:
            raise missing(f"revision {number} of result {name}")
        return found

    def answer(self, name: str, number: int | None) -> ResultAnswer:
        """Return a revision's envelope; raises `ProblemError` after the documents' life."""
        try:
            envelope = self.results.envelope(self.revision(name, number))
        except ObjectMissingError as error:
            raise missing(f"document of result {name} any more") from error
        return ResultAnswer(result_id=name, envelope=envelope)

    def revisions(self, name: str) -> RevisionPage:
        """Return every revision, newest first."""
        found = self.results.revisions(attempt_of(self.tenant, name))
        if not found:
            raise missing(f"result {name}")
        return RevisionPage(result_id=name, revisions=[_revision_row(each) for each in found])


def _row(result: Result) -> ResultRow:
    return ResultRow(
        result_id=result_id(result.attempt_key),
        cluster=result.cluster.split("/", 1)[1],
        scheduler=result.scheduler or "",
        job_id=result.job_id,
        name=result.name,
        revision=result.revision,
        status=result.status or "final",
        end=result.end,
        terminal_state=result.terminal_state,
        domain=result.domain,
        failure_class=result.failure_class,
        quality=result.quality,
        summary=result.summary,
        culprits=list(result.culprits),
        suspects=list(result.suspects),
    )


def _revision_row(result: Result) -> RevisionRow:
    return RevisionRow(
        revision=result.revision,
        status=result.status or "final",
        published_at=result.published_at or "",
        attribution_id=result.attribution_id or "",
        domain=result.domain,
        failure_class=result.failure_class,
        quality=result.quality,
    )
