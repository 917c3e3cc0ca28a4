"""What is made of the events of Batch, SageMaker and PCS."""

import json
from pathlib import Path

import pytest

from connectors.schedulers import InvalidEventError, UnfinishedEventError, parse_event
from connectors.schedulers.pcs import read_pcs_record
from engine.model.identity import attempt_key
from functions.forward.handler import detail_of, read_messages
from functions.scope.admission import merge

EVENTS = Path(__file__).parents[2] / "events"


def scoped(name):
    return parse_event(json.loads((EVENTS / name).read_bytes()))


def test_a_child_of_an_array_is_an_attempt_of_its_own():
    assert scoped("batch-array-child.json").workload.job_id.endswith(":7")


def test_the_parent_of_an_array_ends_nothing_of_its_own():
    with pytest.raises(UnfinishedEventError, match="children"):
        scoped("batch-array-parent.json")


def test_a_multi_node_job_is_one_attempt_and_its_nodes_are_none():
    event = json.loads((EVENTS / "batch-multinode.json").read_bytes())
    assert parse_event(event).workload.state == "FAILED"
    event["detail"]["jobId"] += "#2"
    with pytest.raises(UnfinishedEventError, match="multi-node"):
        parse_event(event)


def test_a_retried_jobs_earlier_attempts_stay_in_the_record():
    event = scoped("batch-retried.json")
    assert event.workload.attempt == 1
    reasons = [each["statusReason"] for each in json.loads(event.record)["attempts"]]
    assert reasons == ["Task failed to start", "Essential container in task exited"]


def test_a_terminated_host_is_told_in_batchs_own_words():
    record = json.loads(scoped("batch-host-terminated.json").record)
    assert record["statusReason"] == "Host EC2 (instance i-0123456789abcdef0) terminated."


def test_a_service_job_says_what_sagemaker_said():
    event = scoped("batch-service-job-failed.json")
    assert event.workload.queue == "training"
    assert event.workload.time_limit_s == 86400
    assert "AlgorithmError: ExitCode 1" in event.record


SERVICE = ("batch-service-job-failed.json", "sagemaker-of-service-job.json")


def test_a_service_job_and_its_training_job_are_one_attempt():
    events = [scoped(name) for name in SERVICE]
    assert {attempt_key(each.workload) for each in events} == {
        "123456789012/eu-west-1/sagemaker/AWSBatch-llm-sft-1/r0"
    }
    scope = merge(events)
    assert scope == merge(reversed(events))
    workload = scope.workload
    assert (workload.state, workload.queue, workload.nodes) == (
        "Failed", "training", ("algo-1", "algo-2"),
    )  # fmt: skip
    assert scope.other_states == ()
    assert [json.loads(line).get("jobId", "")[:4] for line in scope.record.splitlines()] == [
        "9b2c", "",
    ]  # fmt: skip


def test_each_attempt_of_a_retried_service_job_is_its_own_training_job():
    event = json.loads((EVENTS / SERVICE[0]).read_bytes())
    (first,) = event["detail"]["attempts"]
    second = json.loads(json.dumps(first).replace("llm-sft-1", "llm-sft-2"))
    event["detail"]["attempts"] = [first, second]
    told = parse_event(event)
    assert told.workload.job_id == "AWSBatch-llm-sft-2"
    assert len(json.loads(told.record)["attempts"]) == 1


def test_a_service_job_that_never_ran_is_told_by_batch_alone():
    event = json.loads((EVENTS / SERVICE[0]).read_bytes())
    event["detail"]["attempts"] = []
    workload = parse_event(event).workload
    assert (workload.scheduler, workload.state) == ("batch", "FAILED")


def test_a_limit_that_sagemaker_tells_outweighs_batchs_failed():
    service, training = (json.loads((EVENTS / name).read_bytes()) for name in SERVICE)
    training["detail"] |= {
        "TrainingJobStatus": "Stopped", "SecondaryStatus": "MaxRuntimeExceeded",
    }  # fmt: skip
    scope = merge([parse_event(service), parse_event(training)])
    assert scope.workload.state == "MaxRuntimeExceeded"
    assert scope.other_states == (("Failed", ""),)


def test_an_eks_attempt_has_a_node_and_the_exit_of_the_container_that_failed():
    workload = scoped("batch-eks-failed.json").workload
    assert workload.nodes == ("ip-10-0-1-17.eu-west-1.compute.internal",)
    assert (workload.exit_code, workload.attempt) == ("137", 0)


def test_of_several_ecs_containers_the_one_that_failed_counts():
    event = json.loads((EVENTS / "batch-failed.json").read_bytes())
    containers = [{"name": "log", "exitCode": 0}, {"name": "train", "exitCode": 3}]
    event["detail"]["attempts"] = [{"taskProperties": [{"containers": containers}]}]
    assert parse_event(event).workload.exit_code == "3"


def test_a_terminated_hosts_instance_is_known_to_context_events():
    event = scoped("batch-host-terminated.json")
    assert event.instance_ids == {"i-0123456789abcdef0": "i-0123456789abcdef0"}


def test_commands_environments_and_images_are_not_kept():
    for path in EVENTS.glob("batch-*.json"):
        try:
            text = parse_event(json.loads(path.read_bytes())).model_dump_json()
        except UnfinishedEventError:
            continue
        assert "not-to-be-stored" not in text
        assert "train.sh" not in text
        assert "dkr.ecr" not in text


def test_a_stop_at_the_limit_is_told_by_the_secondary_status():
    assert scoped("sagemaker-stopped-at-limit.json").workload.state == "MaxRuntimeExceeded"


@pytest.mark.parametrize(
    "name", ["batch-no-status.json", "batch-service-no-job.json", "sagemaker-no-name.json"]
)
def test_a_broken_event_is_refused(name):
    with pytest.raises(InvalidEventError):
        scoped(f"malformed/{name}")


def test_the_pages_request_is_about_the_attempt_whose_end_batch_tells():
    page = (EVENTS.parent / "docs/schedulers.md").read_text()
    (line,) = [each for each in page.splitlines() if "put-events --entries" in each]
    (entry,) = json.loads(line.partition("--entries '")[2].removesuffix("'"))
    asked = parse_event(
        {"source": entry["Source"], "detail-type": entry["DetailType"],
         "detail": json.loads(entry["Detail"])}
    )  # fmt: skip
    assert asked.detection_signal == "hang"
    assert attempt_key(asked.workload) == attempt_key(scoped("batch-failed.json").workload)


def pcs(name):
    messages = read_messages(json.loads((EVENTS / name).read_bytes()))
    found = []
    for message in messages:
        found.append(detail_of(message))
    return found


def test_a_pcs_completion_becomes_an_event_with_machines():
    detail, none = pcs("pcs-subscription.json")
    assert none is None
    event = {
        "source": "rootrank.scheduler", "detail-type": "Job Completed", "detail": detail,
    }  # fmt: skip
    scoped = parse_event(event)
    workload = scoped.workload
    assert (workload.scheduler, workload.cluster, workload.job_id) == ("pcs", "pcs_abc123", "77")
    assert workload.nodes == ("gpu-1", "gpu-2")
    assert scoped.instance_ids["gpu-2"] == "i-0123456789abcdef1"
    assert json.loads(scoped.record)["state"] == workload.state


def test_names_inside_a_pcs_record_may_be_spelled_otherwise():
    record = {"resource_id": "c", "fields": {"JobId": 5, "JobState": "FAILED", "ExitCode": "1:0"}}
    assert read_pcs_record(record).workload.state == "FAILED"


def test_a_pcs_record_without_a_job_is_none():
    assert pcs("malformed/pcs-no-job.json") == [None]
