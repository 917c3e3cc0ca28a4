"""A transport error, then silence until a time limit: the network lost the request.

A peer that ended would have left an exit or a closed connection behind it. Where every process
lived on to the limit and nothing else was reported, what remains is the transport.
"""

from collections.abc import Iterator

from engine.api import EpisodeView, Evidence, Proposal, SymptomProposal

SOURCES = (
    "https://github.com/aws/aws-ofi-nccl/issues/346",
    "https://github.com/aws/aws-ofi-nccl/issues/161",
)
ERRORS = ("ofi_request_error", "ib_completion_other", "ib_local_usage")
LIMITS = (
    "sched_timeout",
    "sched_deadline",
    "deadline_exceeded",
    "batch_timeout",
    "sagemaker_max_runtime",
)
STALLS = ("progress_stopped",)
CLAIMS = ("root", "lean_root", "ambiguous")
QUIET_US = 10 * 60 * 1_000_000


def evaluate(evidence: Evidence) -> Iterator[Proposal]:
    """Propose `transport_request_lost` where nothing but the error and the limit speaks."""
    errors = tuple(evidence.episodes(*ERRORS))
    limits = tuple(evidence.episodes(*LIMITS))
    stalls = tuple(evidence.episodes(*STALLS))
    end = evidence.end_us
    if not errors or not limits:
        return
    if not stalls and not _is_quiet(errors, end):
        return
    own = {*ERRORS, *LIMITS, *STALLS}
    for other in evidence.episodes():
        is_claim = other.role in CLAIMS and other.tier > 0
        if other.symptom not in own and (is_claim or _is_early_exit(other, end)):
            return
    yield SymptomProposal("transport_request_lost", errors, (*errors, *stalls))


def _is_quiet(errors: tuple[EpisodeView, ...], end: int | None) -> bool:
    if end is None:
        return False
    return all(one.last_us is not None and end - one.last_us > QUIET_US for one in errors)


def _is_early_exit(episode: EpisodeView, end: int | None) -> bool:
    if "rank_exit" not in episode.tags and "process_killed" not in episode.tags:
        return False
    return end is None or episode.first_us is None or end - episode.first_us > QUIET_US
