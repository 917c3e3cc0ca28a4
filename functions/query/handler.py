"""The query function: the web view behind the stack's authorisation."""

from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from functions.adapters.results import Results
from functions.adapters.results_query import ResultsQuery
from functions.adapters.services import connect
from functions.adapters.site_file import site_redactor
from functions.query.app import View, build_app

logger = Logger(service="rootrank")


def _results() -> Results:
    services = connect()
    return Results(ResultsQuery(services.table.client, services.table.name), services.store)


_app = build_app(View(results=_results, redactor=site_redactor))


@logger.inject_lambda_context(clear_state=True)
def query(event: dict[str, Any], context: LambdaContext) -> dict[str, Any]:
    """Answer one request; who may ask was decided before it came here."""
    return _app.resolve(event, context)
