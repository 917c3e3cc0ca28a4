"""How far the evidence carries: the level, reason codes, and what would change the verdict.

The codes are listed in docs/verdict.md.
"""

from dataclasses import dataclass, field

from engine.candidates import EXPLICIT_TIER, Cause
from engine.case import Case
from engine.correlate import Graph
from engine.coverage import CoverageMap
from engine.decide import Decision
from engine.entities import Directory
from engine.model.evidence_request import EvidenceRequest, Interval
from engine.model.moment import rfc3339
from engine.model.vocabulary import HARDWARE_DOMAINS, QualityLevel
from engine.moments import MINUTE_US, OPEN_FUTURE, OPEN_PAST
from engine.normalise import Bounds
from engine.progress import Progress
from engine.terminal import Claim
from engine.witnesses import is_supported

_ORDER: dict[str, int] = {"definitive": 0, "probable": 1, "ambiguous": 2, "insufficient": 3}
_LEVELS: tuple[QualityLevel, ...] = ("definitive", "probable", "ambiguous", "insufficient")
_ACCUSING = frozenset({"gpu", "nvlink", "pcie", "host"})
TAIL_US = 40 * MINUTE_US


@dataclass(slots=True)
class Judgement:
    """The level with its reasons, and rival domains that stand beside a lone cause."""

    level: QualityLevel
    reasons: list[str] = field(default_factory=list)
    requests: list[EvidenceRequest] = field(default_factory=list)
    rival_domains: tuple[str, ...] = ()


class Qualifier:
    """Judges one decision."""

    def __init__(
        self, case: Case, graph: Graph, decision: Decision, coverage: CoverageMap, *,
        directory: Directory, bounds: Bounds, progress: Progress, claim: Claim, losses: list[str],
    ) -> None:  # fmt: skip
        self._case = case
        self._graph = graph
        self._decision = decision
        self._coverage = coverage
        self._directory = directory
        self._bounds = bounds
        self._progress = progress
        self._losses = losses
        self._claim = claim

    def judge(self) -> Judgement:
        """Return the judgement."""
        decision = self._decision
        if decision.domain == "none":
            stated = self._claim.terminal == "completed"
            judgement = (
                Judgement("definitive", ["scheduler_says_completed"])
                if stated
                else Judgement("probable", ["job_says_finished"])
            )
        elif not decision.causes:
            judgement = Judgement("insufficient", ["no_cause_observed"])
        elif decision.is_ambiguous:
            several = len(decision.causes) > 1
            code = "several_causes_fit" if several else "located_not_explained"
            judgement = Judgement("ambiguous", [code])
        else:
            judgement = self._judge_cause(decision.causes[0])
        self._note_gaps(judgement)
        judgement.reasons = sorted(set(judgement.reasons))
        return judgement

    def _judge_cause(self, cause: Cause) -> Judgement:
        meaning = cause.head.meaning
        judgement = Judgement("definitive" if meaning.proof == "direct" else "probable")
        judgement.reasons.append("direct_report" if meaning.proof == "direct" else "inferred")
        supported = is_supported(self._graph, cause.positions, self._decision.dropped)
        if not supported and cause.symptom in self._decision.backed:
            judgement.reasons.append("nothing_ran")
            _cap(judgement, "probable")
            return judgement
        if supported:
            judgement.reasons.append("corroborated")
        if cause.rivals and not supported:
            judgement.rival_domains = cause.rivals
            judgement.reasons.append("rival_domains_fit")
            if cause.domain in _ACCUSING:
                # A lean towards a machine accuses it; a lean towards software accuses nobody.
                cause.domain = self._decision.domain = "unknown"
            _cap(judgement, "ambiguous")
            return judgement
        if not supported:
            alone: QualityLevel = "probable" if _spread_settles(cause) else _level(meaning.alone)
            if _ORDER[alone] > _ORDER[judgement.level]:
                judgement.reasons.append("stands_alone")
            _cap(judgement, alone)
        elif meaning.alone != "definitive" and meaning.role == "ambiguous":
            _cap(judgement, "probable")
        trusts = {episode.trust for episode in cause.episodes}
        if cause.domain in HARDWARE_DOMAINS and not trusts & {"platform", "node"}:
            judgement.reasons.append("job_log_only")
            _cap(judgement, "probable")
        if meaning.role == "lean_root" and not supported:
            judgement.reasons.append("usually_a_cause")
            _cap(judgement, "probable")
        if cause.link == 0:
            judgement.reasons.append("not_linked_to_failure")
            _cap(judgement, "probable")
        if self._is_placed_only(cause):
            judgement.reasons.append("dated_by_place")
            _cap(judgement, "probable")
        if self._has_near_fault(cause):
            judgement.reasons.append("coincident_fault")
            _cap(judgement, "probable")
        if _is_interleaved(cause):
            judgement.reasons.append("interleaved_lines")
        if meaning.terminal == "timeout" and not self._progress.has_steps:
            judgement.reasons.append("progress_not_seen")
        return judgement

    def _is_placed_only(self, cause: Cause) -> bool:
        """Whether only its place below the last step says that an error came before the limit."""
        return (
            self._claim.terminal == "timeout"
            and cause.head.meaning.tier == EXPLICIT_TIER
            and cause.head.is_undated
            and self._progress.is_below(cause.head)
        )

    def _has_near_fault(self, cause: Cause) -> bool:
        nodes = {episode.subject.node for episode in cause.episodes}
        return cause.tier > 2 and any(
            episode.meaning.tier <= 1 and episode.subject.node in nodes
            for episode in self._decision.coincident
        )

    def _note_gaps(self, judgement: Judgement) -> None:
        if self._losses:
            judgement.reasons.append("evidence_lost")
        if self._decision.domain == "none":
            return
        unseen = self._coverage.nodes_without("syslog")
        if unseen:
            judgement.reasons.append("node_logs_missing")
        judgement.requests = self._requests(judgement, unseen)

    def _requests(self, judgement: Judgement, unseen: list[str]) -> list[EvidenceRequest]:
        decision = self._decision
        window = self._window()
        requests: list[EvidenceRequest] = []
        software = decision.domain in ("application", "data", "framework", "operator")
        accused = {e.subject.node for cause in decision.causes for e in cause.episodes}
        wanted = [node for node in unseen if node in accused] or unseen
        if wanted and not (software and judgement.level == "definitive"):
            requests.append(
                EvidenceRequest(
                    source="syslog", entities=tuple(wanted[:64]), window=window,
                    why="kernel messages of these nodes would show or rule out a device fault",
                )
            )  # fmt: skip
        hang = decision.manifestation == "hang"
        if hang and judgement.level != "definitive" and not self._coverage.has("flight_recorder"):
            requests.append(
                EvidenceRequest(
                    source="flight_recorder", window=window,
                    why="collective traces of every rank would show who never entered",
                )
            )  # fmt: skip
        open_case = judgement.level in ("ambiguous", "insufficient")
        if open_case and not self._coverage.has("metrics"):
            requests.append(
                EvidenceRequest(
                    source="metrics", entities=self._directory.names.nodes[:64], window=window,
                    why="device and network counters would separate the causes that fit",
                )
            )  # fmt: skip
        if not self._coverage.has("scheduler") and (
            open_case or decision.terminal in ("node_fail", "cancelled", "unknown")
        ):
            requests.append(
                EvidenceRequest(
                    source="scheduler", window=window,
                    why="the accounting record would name the failed node and who ended the job",
                )
            )  # fmt: skip
        if open_case and not self._coverage.has("applog"):
            requests.append(
                EvidenceRequest(
                    source="applog", window=window, why="the job's own output was not seen"
                )
            )
        return requests

    def _window(self) -> Interval:
        end = self._bounds.end
        if end == OPEN_FUTURE:
            return Interval()
        start = max(self._bounds.start, end - TAIL_US) if self._bounds.start != OPEN_PAST else (
            end - TAIL_US
        )  # fmt: skip
        return Interval(start=rfc3339(start), end=rfc3339(end + 5 * MINUTE_US))


def _cap(judgement: Judgement, level: QualityLevel) -> None:
    if _ORDER[level] > _ORDER[judgement.level]:
        judgement.level = level


def _level(text: str) -> QualityLevel:
    return _LEVELS[_ORDER.get(text, 1)]


def _spread_settles(cause: Cause) -> bool:
    """Whether the spread over several devices already ruled out the device (catalogue 4.7)."""
    return bool(cause.head.meaning.rivals) and not cause.rivals


def _is_interleaved(cause: Cause) -> bool:
    observations = [o for episode in cause.episodes for o in episode.observations]
    return bool(observations) and all("interleaved" in o.flags for o in observations)
