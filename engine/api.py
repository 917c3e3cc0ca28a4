"""What other parts of rootrank, and Python rules, may use of the engine."""

from engine.case import Case
from engine.meanings import FALLBACK, Meanings
from engine.model.verdict import Verdict
from engine.pipeline import attribute, reason
from engine.report.document import Findings
from engine.rulebook.book import Rulebook

__all__ = [
    "FALLBACK",
    "Case",
    "Findings",
    "Meanings",
    "Rulebook",
    "Verdict",
    "attribute",
    "reason",
]
