"""Two to five plain sentences, built from the decision and nothing else."""

from engine.candidates import Cause
from engine.decide import Decision
from engine.entities import Directory
from engine.model.hostlist import compact_hostlist
from engine.model.workload import Workload
from engine.progress import Progress
from engine.qualify import Judgement
from engine.report.wording import explain
from engine.roles import Cast

_ENDED = {
    "completed": "completed",
    "failed": "failed",
    "hung": "stopped making progress and still runs",
    "timeout": "was ended by its time limit",
    "out_of_memory": "ran out of memory",
    "node_fail": "lost a node",
    "preempted": "was preempted",
    "cancelled": "was cancelled",
    "evicted": "was evicted",
    "not_started": "never started a process",
    "running": "is still running",
    "unknown": "ended in a way that the evidence does not show",
}


def summarise(
    workload: Workload, decision: Decision, judgement: Judgement, cast: Cast, *,
    progress: Progress, directory: Directory,
) -> str:  # fmt: skip
    """Return the summary."""
    sentences = [f"Job {workload.job_id} {_ENDED[decision.terminal]}."]
    if decision.domain == "none":
        sentences.append("Nothing that was logged on the way is a failure.")
        return " ".join(sentences)
    if not decision.causes:
        sentences.append("The evidence allows no cause to be named.")
        if decision.failure_class == "collective_timeout_unexplained":
            sentences.append(
                "Ranks waited for each other in a collective operation until a timeout; "
                "the ones that report it are only the ones that waited."
            )
    elif decision.primary is not None and judgement.level in ("definitive", "probable"):
        sentences += _one_cause(decision.primary, judgement, cast, directory)
    else:
        sentences += _open_cause(decision, judgement)
    sentences += _progress_line(progress)
    if judgement.requests and judgement.level != "definitive":
        sentences.append(f"What would settle it: {judgement.requests[0].source} evidence.")
    return " ".join(sentences[:5])


def _one_cause(cause: Cause, judgement: Judgement, cast: Cast, directory: Directory) -> list[str]:
    meaning = cause.head.meaning
    sure = "" if judgement.level == "definitive" else "most likely "
    sentences = [f"The cause is {sure}in the {cause.domain} domain: {_lower(meaning.title)}."]
    nodes = [part.id for part in cast.of("node", "culprit")]
    ranks = [int(part.id) for part in cast.of("rank", "culprit")]
    where = []
    if nodes:
        where.append(f"on {compact_hostlist(nodes)}")
    if ranks:
        where.append(f"at {name_ranks(ranks)}")
    if where:
        sentences.append(f"It was seen {' '.join(where)}.")
    if meaning.explanation:
        sentences.append(_sentence(explain(cause.head, directory)))
    return sentences


def _open_cause(decision: Decision, judgement: Judgement) -> list[str]:
    if judgement.rival_domains:
        cause = decision.causes[0]
        domains = ", ".join(
            sorted({cause.head.meaning.domain, *judgement.rival_domains} - {"unknown"})
        )
        return [
            f"What was seen is: {_lower(cause.head.meaning.title)}.",
            f"It fits equally well in: {domains}; nobody is accused.",
        ]
    if len(decision.causes) == 1 and decision.primary is not None:
        title = _lower(decision.causes[0].head.meaning.title)
        return [f"What was seen is: {title}.", "That alone does not settle the cause."]
    titles = "; ".join(_lower(cause.head.meaning.title) for cause in decision.causes[:4])
    if len(decision.causes) == 1:
        ranks = sorted(
            {rank for episode in decision.causes[0].episodes for rank in episode.subject.ranks}
        )
        return [f"Suspected is {name_ranks(ranks)}: {titles}.", "Why is not shown."]
    return [f"Several causes fit: {titles}.", "The evidence does not order them."]


def _progress_line(progress: Progress) -> list[str]:
    if progress.last_step is None:
        return []
    if progress.stalled and progress.stalled_for_us:
        minutes = progress.stalled_for_us // 60_000_000
        return [f"The last step seen was {progress.last_step}, {minutes} minutes before the end."]
    return [f"The last step seen was {progress.last_step}."]


# Titles may begin with these; they keep their capital inside a sentence.
_NAMES = frozenset(
    ("Slurm", "Neuron", "Kueue", "Kubernetes", "Intel", "Ray", "Horovod", "Gloo", "Spark", "Gaudi",
     "Libfabric", "Lustre", "Python", "Flux", "Dask", "Volcano")
)  # fmt: skip


def name_ranks(ranks: list[int]) -> str:
    """Return `rank 3`, `ranks 0, 1, 2` or `ranks 0-7` for a sorted list."""
    ranks = sorted(ranks)
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > 2 and ranks == list(range(ranks[0], ranks[-1] + 1)):
        return f"ranks {ranks[0]}-{ranks[-1]}"
    shown = ", ".join(str(rank) for rank in ranks[:8])
    more = f" and {len(ranks) - 8} more" if len(ranks) > 8 else ""
    return f"ranks {shown}{more}"


def _lower(title: str) -> str:
    words = title.rstrip(".").split(" ", 1)
    head = words[0]
    if head == "A" or (head[:1].isupper() and head[1:].islower() and head not in _NAMES):
        head = head[0].lower() + head[1:]
    return " ".join([head, *words[1:]])


def _sentence(text: str) -> str:
    text = " ".join(text.split())
    return text if text.endswith((".", "!", "?")) else text + "."
