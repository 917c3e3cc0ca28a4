"""What alarms watch, counted from a verdict (docs/runbook.md)."""

from decimal import Decimal
from typing import Final

from engine.model.envelope import Envelope
from engine.model.verdict import Verdict
from functions.adapters.site_rules import CONNECTOR as SITE_RULES

_WITHOUT_SOURCE: Final = "*"
"""Stands for all rules whose source was not there; every other entry is a rule that raised."""


def counts_of(verdict: Verdict) -> dict[str, int]:
    """Return the counts of one attribution; `Reports` are items of evidence."""
    raised = [each for each in verdict.rules.not_evaluated if each.rule != _WITHOUT_SOURCE]
    refused = [each for each in verdict.connector_reports if each.connector == SITE_RULES]
    asked = [each for each in verdict.connector_reports if each.status != "skipped"]
    return {
        "Attributions": 1,
        "UnknownVerdicts": int(verdict.domain == "unknown"),
        "RuleErrors": len(raised) + len(refused),
        "RulesNotEvaluated": len(verdict.rules.not_evaluated),
        "Reports": len(asked),
        "ReportsLost": sum(1 for each in asked if each.status in ("error", "partial")),
    }


def micro_usd(envelope: Envelope) -> int:
    """Return the estimate of a revision in millionths of a dollar."""
    return int(Decimal(envelope.cost.usd_estimate) * 1_000_000)
