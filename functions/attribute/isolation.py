"""The engine behind the one guard that keeps a verdict possible whatever the evidence holds.

The pipeline and the REST service both judge through it.
"""

from collections.abc import Callable
from dataclasses import replace

from aws_lambda_powertools import Logger

from engine.case import Case
from engine.model.verdict import Verdict
from engine.rulebook.book import Rulebook
from functions.scope.planning import WORKLOAD

logger = Logger(service="rootrank", child=True)

Attribute = Callable[[Case, Rulebook], Verdict]
"""The engine."""


def attribute_isolated(case: Case, book: Rulebook, attribute: Attribute) -> Verdict:
    """Run the engine; evidence on which it fails is set aside whole, and the verdict says so.

    The engine isolates rules and observations itself. What gets past that would otherwise
    fail in every retry, and the attempt would never get a verdict.
    """
    try:
        return attribute(case, book)
    except Exception as error:
        logger.exception("the engine failed on the evidence")
        reason = f"the engine failed on the evidence ({type(error).__name__})"
        stated = [each for each in case.observations if each.connector == WORKLOAD]
        reports = [
            report
            if report.connector == WORKLOAD
            else report.model_copy(update={"status": "error", "reason": reason})
            for report in case.reports
        ]
        losses = (*case.losses, reason)
        bare = replace(
            case, observations=stated, streams=[], reports=reports, losses=losses, history=()
        )
        return attribute(bare, book)
