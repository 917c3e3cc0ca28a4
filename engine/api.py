"""What other parts of rootrank, and Python rules, may use of the engine."""

from engine.case import Case
from engine.meanings import FALLBACK, Meanings
from engine.model.verdict import HistoryEntry, Verdict
from engine.pipeline import attribute, reason
from engine.python_rules import (
    BudgetError,
    EdgeProposal,
    EpisodeView,
    Evidence,
    Proposal,
    RecoveryProposal,
    SightingView,
    SymptomProposal,
)
from engine.report.document import Findings
from engine.rulebook.book import Rulebook

__all__ = [
    "FALLBACK",
    "BudgetError",
    "Case",
    "EdgeProposal",
    "EpisodeView",
    "Evidence",
    "Findings",
    "HistoryEntry",
    "Meanings",
    "Proposal",
    "RecoveryProposal",
    "Rulebook",
    "SightingView",
    "SymptomProposal",
    "Verdict",
    "attribute",
    "reason",
]
