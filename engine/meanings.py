"""Meanings that the engine brings itself: scheduler claims and symptoms that it makes.

A rule file that defines one of these ids wins, and says what the claim means to people and what to
do about it; this table is what keeps a verdict possible without one. The engine's own findings
are nowhere else.
"""

from typing import Final

from engine.rulebook.book import Action, CauseDef, Rulebook, SymptomDef

ENGINE_RULE: Final = "engine"
NO_FAILURE: Final = "no_failure"
UNEXPLAINED: Final = "unexplained_failure"
COLLECTIVE_UNEXPLAINED: Final = "collective_timeout_unexplained"
AMBIGUOUS_CAUSES: Final = "ambiguous_causes"


def _meaning(
    symptom: str,
    title: str,
    *,
    domain: str,
    role: str,
    tier: int,
    manifestation: str = "crash",
    entity: str = "job",
    proof: str = "direct",
    alone: str = "definitive",
    terminal: str | None = None,
    accuses: bool = False,
    tags: tuple[str, ...] = (),
    explanation: str = "",
    actions: tuple[Action, ...] = (),
) -> SymptomDef:
    return SymptomDef(
        symptom=symptom,
        rule=ENGINE_RULE,
        status="stable",
        title=title,
        domain=domain,
        role=role,
        tier=tier,
        manifestation=manifestation,
        entity=entity,
        proof=proof,
        alone=alone,
        rivals=(),
        terminal=terminal,
        accuses=accuses,
        tags=tags,
        about="",
        explanation=explanation,
        actions=actions,
    )


_STOP: Final = ("job_stop",)
_TABLE: Final[tuple[SymptomDef, ...]] = (
    _meaning(
        "sched_timeout",
        "The time limit ended the job",
        domain="scheduler",
        role="root",
        tier=0,
        manifestation="stopped_by_policy",
        terminal="timeout",
        tags=_STOP,
    ),
    _meaning(
        "sched_deadline",
        "The job's deadline passed",
        domain="scheduler",
        role="root",
        tier=0,
        manifestation="stopped_by_policy",
        terminal="timeout",
        tags=_STOP,
    ),
    _meaning(
        "sched_cancelled",
        "Somebody cancelled the job",
        domain="operator",
        role="root",
        tier=0,
        manifestation="stopped_by_policy",
        terminal="cancelled",
        tags=_STOP,
    ),
    _meaning(
        "sched_preempted",
        "The scheduler preempted the job",
        domain="scheduler",
        role="root",
        tier=0,
        manifestation="stopped_by_policy",
        terminal="preempted",
        tags=_STOP,
    ),
    _meaning(
        "sched_evicted",
        "The platform evicted the job",
        domain="scheduler",
        role="root",
        tier=0,
        manifestation="stopped_by_policy",
        alone="probable",
        terminal="evicted",
        tags=_STOP,
    ),
    _meaning(
        "sched_node_fail",
        "A node of the job failed",
        domain="host",
        role="root",
        tier=2,
        manifestation="node_lost",
        entity="node",
        proof="inferred",
        alone="probable",
        terminal="node_fail",
        accuses=True,
        tags=("node_loss",),
    ),
    _meaning(
        "sched_boot_fail",
        "A node of the job did not boot",
        domain="host",
        role="root",
        tier=2,
        manifestation="never_started",
        entity="node",
        proof="inferred",
        alone="probable",
        terminal="not_started",
        accuses=True,
        tags=("node_loss",),
    ),
    _meaning(
        "sched_out_of_memory",
        "The job ran out of host memory",
        domain="host",
        role="root",
        tier=2,
        entity="job",
        terminal="out_of_memory",
        tags=("host_oom", "process_killed"),
    ),
    _meaning(
        "sched_failed",
        "The scheduler records a failure",
        domain="unknown",
        role="confirm",
        tier=6,
        terminal="failed",
    ),
    _meaning(
        "sched_completed",
        "The job completed",
        domain="none",
        role="marker",
        tier=7,
        manifestation="none",
        terminal="completed",
    ),
    _meaning(
        "rank_silent",
        "A rank said nothing while its peers waited",
        domain="unknown",
        role="confirm",
        tier=6,
        manifestation="hang",
        entity="rank",
        proof="inferred",
        alone="insufficient",
    ),
    _meaning(
        "rank_never_entered",
        "A rank never entered the collective that its peers waited in",
        domain="unknown",
        role="ambiguous",
        tier=6,
        manifestation="hang",
        entity="rank",
        proof="inferred",
        alone="ambiguous",
        explanation="All other members entered the operation; what held this rank is not shown.",
        actions=(Action("collect_more_evidence", "job", "what held the rank is not shown"),),
    ),
    _meaning(
        "rank_lagging",
        "A rank stopped earlier than its peers",
        domain="unknown",
        role="ambiguous",
        tier=6,
        manifestation="hang",
        entity="rank",
        proof="inferred",
        alone="ambiguous",
        explanation="This rank's counters stand behind those of all its peers.",
        actions=(Action("collect_more_evidence", "job", "what held the rank is not shown"),),
    ),
    _meaning(
        "rank_mismatched",
        "Ranks issued different collectives at the same step",
        domain="application",
        role="lean_root",
        tier=3,
        manifestation="hang",
        entity="rank",
        proof="inferred",
        alone="probable",
        accuses=True,
        explanation="At one sequence number of one group the ranks disagree on the operation.",
        actions=(Action("fix_application", "job", "the ranks' program order differs"),),
    ),
    _meaning(
        "progress_stopped",
        "The job stopped making progress",
        domain="unknown",
        role="secondary",
        tier=6,
        manifestation="hang",
        proof="inferred",
        alone="insufficient",
        tags=("progress_stall",),
    ),
    _meaning(
        "unobserved_cause",
        "The cause was not observed",
        domain="unknown",
        role="ambiguous",
        tier=6,
        manifestation="unknown",
        proof="inferred",
        alone="insufficient",
    ),
)
FALLBACK: Final[dict[str, SymptomDef]] = {item.symptom: item for item in _TABLE}


# Windows of the engine's own edges: as early as two skewed clocks allow, as late as the longest
# collective timeout in use (two hours).
_EARLY_US: Final = -15_000_000
_LATE_US: Final = 7_200_000_000
# The findings of engine/collectives.py about who did not come.
LOCATED: Final = ("rank_never_entered", "rank_lagging", "rank_silent")


def engine_causes(present: dict[str, SymptomDef]) -> tuple[CauseDef, ...]:
    """Return what holds without any rule: a fault on a rank is why that rank never came."""
    roots = tuple(
        sorted(
            name
            for name, meaning in present.items()
            if meaning.role in ("root", "lean_root", "ambiguous")
            and name not in LOCATED
            and meaning.tier > 0
        )
    )
    if not roots:
        return ()
    return (
        CauseDef(
            rule="engine/held_rank",
            status="stable",
            title="A fault on a rank is why it fell behind",
            causes=roots,
            effects=LOCATED,
            joins=("same_rank", "same_gpu"),
            min_us=_EARLY_US,
            max_us=_LATE_US,
            strength="sufficient",
            requires=(),
            unless=(),
        ),
    )


class Meanings:
    """The book's symptoms with the engine's own behind them."""

    def __init__(self, book: Rulebook) -> None:
        self._symptoms = book.symptoms

    def get(self, symptom: str) -> SymptomDef | None:
        """Return the meaning of `symptom`, or None where nobody defines it."""
        return self._symptoms.get(symptom) or FALLBACK.get(symptom)

    def require(self, symptom: str) -> SymptomDef:
        """Return the meaning of one of the engine's own symptoms."""
        found = self.get(symptom)
        if found is None:
            raise KeyError(f"the engine has no meaning for {symptom!r}")
        return found
