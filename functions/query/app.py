"""The web view's addresses: what each answers, on Lambda and on loopback alike."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from aws_lambda_powertools import Logger
from aws_lambda_powertools.event_handler import APIGatewayHttpResolver, Response
from pydantic import ValidationError

from connectors.protocol import ConnectorError, TransientError
from connectors.site import SiteError
from engine.extract.redact import Redactor
from engine.model.contract import UnknownMajorVersionError
from functions.adapters.object_store import ObjectMissingError
from functions.adapters.results import CursorError, Page, Result, Results, Selection
from functions.query import addresses, lists, pages
from functions.query.asking import QuestionError
from functions.query.context import Context, ContextReader
from functions.query.difference import compare
from functions.query.plain import short
from functions.query.verdict_view import VerdictView

logger = Logger(service="rootrank", child=True)

_HTML: Final = "text/html; charset=utf-8"
_JSON: Final = "application/json"
_TYPES: Final = {"style.css": "text/css; charset=utf-8", "mark.svg": "image/svg+xml"}
_CONTEXT_LINES: Final = 3
_MORE_LINES: Final = 40
_CONTEXTS: Final = 4
"""So many pieces of a verdict's evidence are shown with the lines round them at once."""


class NothingThereError(LookupError):
    """No page for what was asked; the message says what to do instead."""


def utc_now() -> datetime:
    """Return the clock's reading."""
    return datetime.now(UTC)


@dataclass(slots=True)
class View:
    """What the pages read. `local` names the state folder where the view runs on loopback."""

    results: Callable[[], Results | None]
    redactor: Callable[[], Redactor] = Redactor
    local: str | None = None
    now: Callable[[], datetime] = field(default=utc_now)

    def read(self) -> Results:
        """Return the results; raises `NothingThereError` where a folder holds none yet."""
        found = self.results()
        if found is None:
            raise NothingThereError(
                f"{self.local} holds no results yet: `rootrank run EVENT.json` makes some"
            )
        return found


def build_app(view: View) -> APIGatewayHttpResolver:
    """Return the resolver for events of an HTTP API or a function URL (payload 2.0)."""
    app = APIGatewayHttpResolver()
    _add_lists(app, view)
    _add_attempts(app, view)
    _add_rest(app)
    return app


def _add_lists(app: APIGatewayHttpResolver, view: View) -> None:
    def query() -> dict[str, str]:
        return dict(app.current_event.query_string_parameters or {})

    @app.get("/", compress=True)
    def verdicts() -> Response[str]:
        found = view.results()
        asked = query()
        if found is None:
            return _page("verdicts.html", **lists.verdicts(None, asked, view=view))
        return _page("verdicts.html", **lists.verdicts(found, asked, view=view))

    @app.get("/verdicts.json", compress=True)
    def verdicts_json() -> Response[str]:
        return _json(_page_json(lists.verdict_page(view.read(), query(), now=view.now())))

    @app.get("/find")
    def find() -> Response[str]:
        asked = query().get("q", "").strip()
        return _redirect(lists.find(view.read(), asked))

    @app.get("/job", compress=True)
    def job() -> Response[str]:
        return _page("found.html", **lists.job(view.read(), query()))

    @app.get("/job.json", compress=True)
    def job_json() -> Response[str]:
        asked = query()
        selection = Selection(job_id=lists.required(asked, "id"))
        return _json(_page_json(view.read().page(selection, cursor=asked.get("cursor"))))

    @app.get("/node", compress=True)
    def node() -> Response[str]:
        return _page("part.html", **lists.node(view.read(), query()))

    @app.get("/node.json", compress=True)
    def node_json() -> Response[str]:
        return _json(_page_json(lists.node_page(view.read(), query())))

    @app.get("/gpu", compress=True)
    def gpu() -> Response[str]:
        return _page("part.html", **lists.gpu(view.read(), query()))

    @app.get("/gpu.json", compress=True)
    def gpu_json() -> Response[str]:
        return _json(_page_json(lists.gpu_page(view.read(), query())))

    @app.get("/nodes", compress=True)
    def nodes() -> Response[str]:
        return _page("nodes.html", **lists.nodes(view.read(), query(), now=view.now()))

    @app.get("/nodes.json", compress=True)
    def nodes_json() -> Response[str]:
        told = lists.nodes(view.read(), query(), now=view.now())
        return _json({"since": told["since"], "nodes": [t.as_json() for t in told["tallies"]]})

    @app.get("/trends", compress=True)
    def trends() -> Response[str]:
        return _page("trends.html", **lists.trends(view.read(), query(), now=view.now()))

    @app.get("/trends.json", compress=True)
    def trends_json() -> Response[str]:
        return _json(lists.trends(view.read(), query(), now=view.now())["trend"].as_json())


def _add_attempts(app: APIGatewayHttpResolver, view: View) -> None:
    @app.get("/attempts/.+", compress=True)
    def attempt() -> Response[str]:
        keys, number, what = addresses.read_attempt(app.current_event.path)
        results = view.read()
        current, result = _find(results, keys, number)
        if what == "json":
            return _text(results.document(result).decode(), _JSON)
        if what == "page":
            return _verdict_page(view, results, current, result)
        if what == "diff":
            return _difference_page(results, result)
        if what.startswith("evidence/"):
            return _evidence_page(view, results, result, what.removeprefix("evidence/"))
        raise NothingThereError("an attempt has a page, revisions, their diff and their evidence")


def _add_rest(app: APIGatewayHttpResolver) -> None:
    @app.get("/static/<name>", compress=True)
    def static(name: str) -> Response[str]:
        if name not in _TYPES:
            raise NothingThereError("there is no such file")
        headers = {**pages.HEADERS, "Cache-Control": "public, max-age=86400"}
        body = (pages.STATIC / name).read_text(encoding="utf-8")
        return Response(200, content_type=_TYPES[name], body=body, headers=dict(headers))

    @app.not_found
    def not_found(_error: Any) -> Response[str]:
        return _message(404, "No such page", "Nothing is at this address.")

    app.exception_handler(NothingThereError)(_nothing_there)
    app.exception_handler([QuestionError, CursorError])(_bad_question)
    app.exception_handler(ObjectMissingError)(_expired)
    app.exception_handler([UnknownMajorVersionError, ValidationError])(_unreadable)
    app.exception_handler(ConnectorError)(_refused)


def _nothing_there(error: NothingThereError) -> Response[str]:
    return _message(404, "Not found", f"{error}.")


def _bad_question(error: ValueError) -> Response[str]:
    return _message(400, "This cannot be asked", f"{error}.")


def _expired(_error: ObjectMissingError) -> Response[str]:
    return _message(
        404,
        "No longer kept",
        "The table still lists this verdict, but its document's lifetime (ResultDays) is over.",
    )


def _unreadable(error: ValueError) -> Response[str]:
    logger.exception("a stored document cannot be read")
    text = "The stored document does not follow its schema; the function's log names the field."
    if isinstance(error, UnknownMajorVersionError):
        text = str(error)
    return _message(500, "A stored document cannot be read", text)


def _refused(error: ConnectorError) -> Response[str]:
    logger.exception("the store refused")
    if isinstance(error, TransientError):
        return _message(503, "The store is busy", "Load the page again in a few seconds.")
    return _message(
        500,
        "The store refuses",
        "Table or bucket may not be read from here: check the policy. The log says what for.",
    )


def _find(results: Results, keys: list[str], number: int | None) -> tuple[Result, Result]:
    for key in keys:
        current = results.current(key)
        if current is None:
            continue
        if number is None or number == current.revision:
            return current, current
        found = results.revision(key, number)
        if found is not None:
            return current, found
        raise NothingThereError(
            f"this attempt has no revision {number}, only up to {current.revision}"
        )
    raise NothingThereError("no verdict is stored for this attempt")


def _verdict_page(view: View, results: Results, current: Result, result: Result) -> Response[str]:
    shown = VerdictView(
        result=result,
        current=current,
        envelope=results.envelope(result),
        revisions=results.revisions(result.attempt_key),
    )
    reader = _reader(view, results)
    cited = [each.evidence for each in shown.evidence[:_CONTEXTS]]
    shown.contexts = {
        each.evidence_id: _context(reader, result, each, around=_CONTEXT_LINES) for each in cited
    }
    twin = addresses.attempt_address(result.attempt_key, revision=result.revision) + ".json"
    is_plain = shown.is_newest
    return _page(
        "verdict.html",
        section="verdicts",
        twin=twin,
        view=shown,
        numbers={each.evidence.evidence_id: each.number for each in shown.evidence},
        shell=lists.show_command(result, is_newest=is_plain, local=view.local),
    )


def _difference_page(results: Results, result: Result) -> Response[str]:
    if result.supersedes is None:
        raise NothingThereError("the first revision has none before it to compare with")
    before = results.revision(result.attempt_key, result.supersedes)
    if before is None:
        raise NothingThereError("the revision before is no longer stored")
    changes = compare(results.verdict(before), results.verdict(result))
    return _page(
        "difference.html", section="verdicts", twin=None, before=before, after=result,
        changes=changes,
    )  # fmt: skip


def _evidence_page(view: View, results: Results, result: Result, name: str) -> Response[str]:
    verdict = results.verdict(result)
    evidence = next((each for each in verdict.evidence if each.evidence_id == name), None)
    if evidence is None:
        raise NothingThereError("this revision cites no such evidence")
    reader = _reader(view, results)
    context = _context(reader, result, evidence, around=_MORE_LINES)
    return _page(
        "evidence.html", section="verdicts", twin=None, result=result, e=evidence, context=context
    )


def _reader(view: View, results: Results) -> ContextReader | None:
    """Return a reader, or None where it is not known what the site wants masked."""
    try:
        return ContextReader(results.store, view.redactor())
    except SiteError:
        logger.exception("the site file cannot be read, so no raw line is shown")
        return None


def _context(
    reader: ContextReader | None, result: Result, evidence: Any, *, around: int
) -> Context:
    if reader is None:
        return Context(reason="the site file cannot be read, which says what has to be masked")
    try:
        return reader.read(result, evidence, around=around)
    except (ConnectorError, ValueError) as error:
        logger.warning("context not read", extra={"reason": str(error)[:300]})
        return Context(reason="the plan that says where it was read cannot be read now")


def _page_json(page: Page) -> dict[str, Any]:
    rows = [each.model_dump(mode="json", exclude_none=True) for each in page.results]
    return {"results": rows, "cursor": page.cursor, "examined": page.examined}


@cache
def _style() -> str:
    return hashlib.sha256((pages.STATIC / "style.css").read_bytes()).hexdigest()[:12]


def _page(template: str, *, status: int = 200, **values: Any) -> Response[str]:
    told: Mapping[str, Any] = {
        "section": "",
        "twin": None,
        "query": "",
        "style": _style(),
        **values,
    }
    return _text(pages.render(template, **told), _HTML, status=status)


def _message(status: int, heading: str, text: str) -> Response[str]:
    return _page("message.html", status=status, heading=heading, text=short(text, 600))


def _json(value: Any) -> Response[str]:
    return _text(json.dumps(value, ensure_ascii=False, sort_keys=True, indent=1), _JSON)


def _text(body: str, content_type: str, *, status: int = 200) -> Response[str]:
    return Response(status, content_type=content_type, body=body, headers=dict(pages.HEADERS))


def _redirect(address: str) -> Response[str]:
    headers = {**pages.HEADERS, "Location": address}
    return Response(303, content_type=_HTML, body="", headers=dict(headers))
