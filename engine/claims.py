"""The workload's own state as evidence: what the scheduler says ended the attempt."""

from engine.case import Case
from engine.model.observation import Entity, Observation, Origin, Sample, When
from engine.moments import MINUTE_US, SECOND_US, known
from engine.normalise import Bounds
from engine.terminal import Claim

# Slurm's KillWait (30 s), Kubernetes' grace period (30 s) and accounting lag lie between the
# decision to stop a job and its recorded end.
GRACE_US = 2 * MINUTE_US
# SlurmdTimeout: a dead node is noticed up to 300 s late (catalogue 3.5).
NODE_DEATH_US = 6 * MINUTE_US
CLAIM_URI = "workload"


def claim_observation(case: Case, claim: Claim, bounds: Bounds) -> Observation | None:
    """Return the scheduler's claim as an observation of its well-known symptom, if it makes one."""
    if not claim.symptom or claim.terminal in ("running", "unknown"):
        return None
    workload = case.workload
    words = [f"workload.state scheduler={_word(workload.scheduler)}", f"state={_word(claim.word)}"]
    if workload.exit_code:
        words.append(f"exit={_word(workload.exit_code)}")
    text = " ".join(words)
    end = known(bounds.end)
    grace = NODE_DEATH_US if claim.symptom == "sched_node_fail" else GRACE_US
    when = When(
        None if end is None else end - grace,
        None if end is None else end + SECOND_US,
        "record" if end is not None else "none",
        "scheduler",
    )
    sample = Sample(Origin(CLAIM_URI, 1, 0, len(text.encode())), when, text)
    return Observation(
        kind="record", symptom=claim.symptom, rule="engine", source="scheduler",
        connector="workload", trust=case.stated_by, stream=CLAIM_URI, entity=Entity(), when=when,
        count=1, first=sample, last=sample, fields={"state": claim.word, "by": claim.by},
    )  # fmt: skip


def _word(text: str) -> str:
    return f'"{text}"' if " " in text else text
