"""Jobs end on a real Slurm cluster; what its emitters tell becomes the right scope and verdict.

The epilog, the completion plugin and the poller all tell of each job: an attempt stays one.
"""

import pytest
from machine import has_jwt, has_memory_cgroup

from connectors.registry import Outside, build_connectors
from connectors.site import read_site
from engine.model.moment import rfc3339, to_us
from engine.model.workload import Workload

pytestmark = pytest.mark.system("slurm")


def only_key(site, job):
    (key,) = site.keys(job)
    return key


def scoped(site, name):
    verdict = site.verdict(only_key(site, site.jobs[name]))
    return verdict, verdict.workload


def test_a_completed_job_is_recorded_and_needs_no_verdict(site):
    key = only_key(site, site.jobs["done"])
    assert key.startswith("research/rrlab/slurm/")
    assert site.claim_state(key) == "COMPLETED"


@pytest.mark.parametrize(
    ("name", "node", "limit_s"),
    [
        ("fail", "rr1", 3600), ("signal", "rr1", 3600), ("time", "rr2", 60),
        ("cancel", "rr2", 3600), ("node", "rr3", 3600), ("memory", "rr1", 3600),
        ("script", "rr1", 3600),
    ],
)  # fmt: skip
def test_every_outcome_has_its_owner_window_limit_and_node(site, name, node, limit_s):
    if name not in site.jobs:
        pytest.skip("needs control groups of version 1")
    _, workload = scoped(site, name)
    assert (workload.cluster, workload.tenant, workload.user) == ("rrlab", "research", "root")
    assert (workload.nodes, workload.name) == ((node,), name)
    assert workload.start <= workload.end
    described = commands(site).describe(Workload(scheduler="slurm", job_id=site.jobs[name]))
    assert described.workload.time_limit_s == limit_s


def test_a_failed_job_has_its_exit_code_node_window_user_and_limit(site):
    verdict, workload = scoped(site, "fail")
    assert (workload.state, workload.exit_code) == ("FAILED", "3:0")
    assert workload.nodes == ("rr1",)
    assert (workload.user, workload.name) == ("root", "fail")
    assert workload.start <= workload.end
    assert verdict.terminal_state == "failed"
    assert [each for each in verdict.affected_nodes if each.role in ("culprit", "suspect")] == []


def test_a_job_that_died_of_a_signal_says_which(site):
    _, workload = scoped(site, "signal")
    assert (workload.state, workload.exit_code) == ("FAILED", "0:11")


def test_a_job_beyond_its_time_limit_is_a_timeout(site):
    verdict, workload = scoped(site, "time")
    assert workload.state == "TIMEOUT"
    assert verdict.terminal_state in ("timeout", "hung")


def test_a_cancelled_job_says_who_cancelled_it(site):
    verdict, workload = scoped(site, "cancel")
    assert workload.state.startswith("CANCELLED")
    assert verdict.terminal_state == "cancelled"


@pytest.mark.skipif(not has_memory_cgroup(), reason="needs control groups of version 1")
def test_a_job_out_of_memory_says_so(site):
    verdict, workload = scoped(site, "memory")
    assert workload.state == "OUT_OF_MEMORY"
    assert verdict.terminal_state == "out_of_memory"


def test_a_job_that_lost_its_node_names_it(site):
    verdict, workload = scoped(site, "node")
    assert workload.state == "NODE_FAIL"
    assert workload.nodes == ("rr3",)
    assert verdict.terminal_state == "node_fail"


def test_a_requeued_job_has_two_attempts_with_windows_of_their_own(site):
    keys = site.keys(site.jobs["again"])
    assert len(keys) == 2
    states = [site.claim_state(key) for key in keys]
    assert states[1] == "FAILED"
    second = site.verdict(keys[1]).workload
    assert second.exit_code == "1:0"


def test_the_tasks_of_an_array_are_attempts_of_their_own(site):
    job = site.jobs["array"]
    states = [site.claim_state(only_key(site, f"{job}_{task}")) for task in range(3)]
    assert states == ["COMPLETED", "FAILED", "FAILED"]
    workload = site.verdict(only_key(site, f"{job}_2")).workload
    assert workload.exit_code == "2:0"


def test_three_emitters_tell_and_nothing_is_told_twice_or_lost(site):
    sent = [each.event for each in site.stack.invocations if "Admit" in each.function]
    assert sum(len(each["Records"]) for each in sent) > len(site.jobs)
    assert site.waiting() == []
    assert site.stack.dead_letters() == []
    for name, job in site.jobs.items():
        if name not in ("array", "again", "het"):
            assert len(site.keys(job)) == 1, name


def test_each_part_of_a_het_job_is_an_attempt_on_its_own_nodes(site):
    job = site.jobs["het"]
    parts = [site.verdict(only_key(site, f"{job}+{offset}")).workload for offset in (0, 1)]
    assert [each.nodes for each in parts] == [("rr1",), ("rr2",)]
    assert {(each.state, each.exit_code) for each in parts} == {("FAILED", "5:0")}


def test_a_name_with_newlines_bars_and_bytes_changes_no_other_field(site):
    _, workload = scoped(site, "name")
    assert (workload.state, workload.exit_code, workload.user) == ("FAILED", "2:0", "root")
    assert workload.name.startswith("a\nb|c JobState=COMPLETED")


def test_a_job_that_still_runs_is_attributed_on_request_and_again_when_it_ends(site):
    assert site.early.workload.state == "RUNNING"
    assert (site.early.workload.end, site.early.workload.nodes) == (None, ("rr1",))
    verdict, workload = scoped(site, "hang")
    assert workload.start == site.early.workload.start
    assert verdict.terminal_state == "cancelled"


def test_a_request_for_a_job_that_ended_is_refused(site):
    done = site.program("request", site.jobs["done"], "--signal", "hang")
    assert done.returncode == 2
    assert "is COMPLETED" in done.stderr


def test_the_completion_script_tells_also_of_a_job_that_never_began(site):
    told = [each["record"] for each in site.told() if each["record"]["kind"] == "jobcomp"]
    by_script = {each["completion"]["JOBID"] for each in told if "JOBID" in each["completion"]}
    assert by_script == {site.jobs["script"], site.jobs["never"]}
    _, workload = scoped(site, "script")
    assert (workload.state, workload.exit_code, workload.nodes) == ("FAILED", "4:0", ("rr1",))
    _, never = scoped(site, "never")
    assert never.state.startswith("CANCELLED")
    assert (never.start, never.nodes) == (None, ())


def commands(site):
    slurm = f"{{kind: commands, conf: {site.cluster.conf}}}"
    text = f"version: 1\nclusters:\n  - {{name: rrlab, slurm: {slurm}}}\n"
    return build_connectors(read_site(text.encode(), shown="sources.yaml"), Outside())[0]


def test_the_connector_reaches_the_cluster_and_describes_the_attempt(site):
    connector = commands(site)
    assert connector.probe().status == "ok"
    found = connector.describe(Workload(scheduler="slurm", job_id=site.jobs["fail"]))
    assert (found.workload.state, found.workload.exit_code) == ("FAILED", "3:0")
    assert found.workload.nodes == ("rr1",)


def test_the_connector_and_the_event_agree_on_the_window(site):
    _, told = scoped(site, "time")
    found = commands(site).describe(Workload(scheduler="slurm", job_id=site.jobs["time"]))
    window = (rfc3339(to_us(found.workload.start)), rfc3339(to_us(found.workload.end)))
    assert window == (told.start, told.end)


def test_the_plan_asks_the_cluster_and_its_answer_is_evidence(site):
    verdict, _ = scoped(site, "node")
    reports = {each.connector: each.status for each in verdict.connector_reports}
    assert reports["slurm"] == "ok"
    assert reports["record"] == "ok"


def rest(site, url, token=None, user="root"):
    access = f", user: {user}, token: {{env: TOKEN}}" if token else ""
    text = (
        f"version: 1\nclusters:\n  - name: rrlab\n    slurm: {{kind: rest, url: '{url}'{access}}}\n"
    )
    world = Outside(environment={"TOKEN": token or ""})
    return build_connectors(read_site(text.encode(), shown="sources.yaml"), world)[0]


def test_slurmrestd_says_of_each_job_what_the_programs_say(site):
    connector, programs = rest(site, site.cluster.start_rest()), commands(site)
    assert connector.probe().detail.endswith("controllers: UP")
    job = site.jobs["array"]
    for name in (*(site.jobs[n] for n in ("done", "fail", "signal", "time", "node")),
                 f"{job}_2", f"{site.jobs['het']}+1"):  # fmt: skip
        asked = Workload(scheduler="slurm", job_id=name)
        said, wanted = connector.describe(asked), programs.describe(asked)
        assert said.workload == wanted.workload, name


def test_slurmrestd_lets_a_token_in_and_no_other(site):
    if not has_jwt():
        pytest.skip("needs slurm-wlm-jwt-plugin")
    url, token = site.cluster.start_rest_with_tokens(), site.cluster.token("root")
    asked = Workload(scheduler="slurm", job_id=site.jobs["fail"])
    assert rest(site, url, token).describe(asked).workload.exit_code == "3:0"
    for wrong in ("wrong", None):
        assert rest(site, url, wrong).probe().status == "refused"
