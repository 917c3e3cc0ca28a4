import json

from engine.model.moment import parse_rfc3339, to_us
from tests.unit.reading import facts, read

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "llm-sft-0", "labels": {"job-name": "llm-sft"}},
    "spec": {"nodeName": "node-002"},
    "status": {
        "phase": "Failed",
        "containerStatuses": [
            {
                "name": "train",
                "restartCount": 2,
                "lastState": {"terminated": {"exitCode": 1, "reason": "Error"}},
                "state": {
                    "terminated": {
                        "exitCode": 137, "reason": "OOMKilled",
                        "finishedAt": "2024-06-07T09:13:00Z",
                    }
                },
            }
        ],
    },
}  # fmt: skip


def kube(text, **more):
    return read("kubernetes", text, scheduler="kubernetes", job_id="llm-sft", **more)


def test_a_pod_gives_its_phase_and_both_states_of_each_container():
    structured = kube(json.dumps(POD, indent=1), nodes=("node-002",))
    assert facts(structured) == [
        "k8s.pod name=llm-sft-0 phase=Failed node=node-002",
        "k8s.container pod=llm-sft-0 container=train state=terminated reason=Error exit=1 "
        "restarts=2 last=true node=node-002",
        "k8s.container pod=llm-sft-0 container=train state=terminated reason=OOMKilled exit=137 "
        "restarts=2 node=node-002",
    ]
    assert structured.facts[2].entity.node == "node-002"
    assert structured.facts[2].entity.pod == "llm-sft-0"
    assert structured.facts[2].when.latest_us == to_us(parse_rfc3339("2024-06-07T09:13:00Z"))


def test_yaml_says_the_same_as_json():
    text = """\
apiVersion: v1
items:
- apiVersion: v1
  kind: Pod
  metadata:
    name: llm-sft-0
  spec:
    nodeName: node-002
  status:
    phase: Failed
    reason: Evicted
    message: 'The node was low on resource: memory.'
kind: List
"""
    assert facts(kube(text, nodes=("node-002",))) == [
        "k8s.pod name=llm-sft-0 phase=Failed reason=Evicted node=node-002 "
        'message="The node was low on resource: memory."'
    ]


def test_another_jobs_pod_is_marked():
    other = {**POD, "metadata": {"name": "web-1"}}
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": [POD, other]})
    families = [line.split(" ")[0] for line in facts(kube(text))]
    assert families == [
        "k8s.pod", "k8s.container", "k8s.container",
        "k8s-other.pod", "k8s-other.container", "k8s-other.container",
    ]  # fmt: skip


def test_a_node_condition_is_about_the_node_and_strangers_are_marked():
    def node(name):
        condition = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
        return {"kind": "Node", "metadata": {"name": name}, "status": {"conditions": [condition]}}

    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": [node("a"), node("b")]})
    structured = kube(text, nodes=("a",))
    assert facts(structured) == [
        "k8s.condition kind=Node name=a type=Ready status=False reason=KubeletNotReady",
        "k8s-other.condition kind=Node name=b type=Ready status=False reason=KubeletNotReady",
    ]
    assert [fact.entity.node for fact in structured.facts] == ["a"]
    assert [fact.entity.node for fact in structured.others] == [""]


def test_a_nodes_taints_are_conditions_of_its_own() -> None:
    taint = {
        "key": "node.kubernetes.io/unreachable", "effect": "NoExecute",
        "timeAdded": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    node = {"kind": "Node", "metadata": {"name": "a"}, "spec": {"taints": [taint, {}, 7]}}
    found = read("kubernetes", json.dumps(node), scheduler="kubernetes", nodes=("a",))
    assert facts(found) == [
        "k8s.condition kind=Node name=a type=Taint status=NoExecute "
        "reason=node.kubernetes.io/unreachable"
    ]


def test_an_event_spans_from_its_first_to_its_last_sighting():
    event = {
        "kind": "Event", "apiVersion": "v1", "type": "Warning", "reason": "BackOff", "count": 4,
        "message": "Back-off restarting failed container",
        "involvedObject": {"kind": "Pod", "name": "llm-sft-0"},
        "firstTimestamp": "2024-06-07T09:00:00Z", "lastTimestamp": "2024-06-07T09:10:00Z",
    }  # fmt: skip
    structured = kube(json.dumps(event))
    assert facts(structured) == [
        "k8s.event type=Warning reason=BackOff kind=Pod name=llm-sft-0 count=4 "
        'message="Back-off restarting failed container"'
    ]
    when = structured.facts[0].when
    assert when.latest_us - when.earliest_us == 600_000_000


DESCRIBE = """\
Name:             llm-sft-0
Namespace:        training
Node:             node-002/10.0.0.2
Labels:           job-name=llm-sft
Status:           Failed
Containers:
  train:
    Image:          trainer:1
    State:          Terminated
      Reason:       OOMKilled
      Exit Code:    137
      Started:      Fri, 07 Jun 2024 09:00:00 +0000
      Finished:     Fri, 07 Jun 2024 09:13:00 +0000
    Last State:     Waiting
      Reason:       CrashLoopBackOff
    Restart Count:  3
Conditions:
  Type              Status
  Ready             False
Events:
  Type     Reason   Age                  From     Message
  ----     ------   ----                 ----     -------
  Warning  BackOff  65s (x2 over 3m5s)   kubelet  Back-off restarting failed container
"""


def test_a_described_pod_gives_states_and_events():
    captured = to_us(parse_rfc3339("2024-06-07T09:16:07Z"))
    structured = kube(DESCRIBE, label={"captured_at_us": captured}, nodes=("node-002",))
    assert facts(structured) == [
        "k8s.event type=Warning reason=BackOff kind=Pod name=llm-sft-0 count=2 "
        'message="Back-off restarting failed container"',
        "k8s.pod name=llm-sft-0 phase=Failed node=node-002",
        "k8s.container pod=llm-sft-0 container=train state=waiting reason=CrashLoopBackOff "
        "restarts=3 last=true node=node-002",
        "k8s.container pod=llm-sft-0 container=train state=terminated reason=OOMKilled exit=137 "
        "restarts=3 node=node-002",
    ]
    event = structured.facts[0].when
    assert captured - event.latest_us == 65_000_000
    assert captured - event.earliest_us == 186_000_000  # 3m5s, rounded down by kubectl


def test_ages_without_a_capture_time_give_no_time():
    structured = kube(DESCRIBE)
    assert structured.facts[0].when.earliest_us is None


def test_a_custom_resources_conditions_are_read_key_by_key():
    text = """\
Name:         job-llm-sft
Kind:         Workload
Status:
  Conditions:
    Last Transition Time:  2024-06-07T09:14:02Z
    Message:               Exceeded the PodsReady timeout
    Reason:                PodsReadyTimeout
    Status:                True
    Type:                  Evicted
    Last Transition Time:  2024-06-07T09:15:02Z
    Message:               Quota reserved
    Reason:                QuotaReserved
    Status:                True
    Type:                  QuotaReserved
"""
    assert facts(kube(text)) == [
        "k8s.condition kind=Workload name=job-llm-sft type=Evicted status=True "
        'reason=PodsReadyTimeout message="Exceeded the PodsReady timeout"',
        "k8s.condition kind=Workload name=job-llm-sft type=QuotaReserved status=True "
        'reason=QuotaReserved message="Quota reserved"',
    ]


def test_pod_and_event_tables_are_read():
    text = """\
NAME        READY   STATUS      RESTARTS        AGE   IP       NODE
llm-sft-0   0/1     OOMKilled   2 (5m12s ago)   58s   <none>   node-002

LAST SEEN   TYPE      REASON             OBJECT          MESSAGE
2m5s        Warning   FailedScheduling   pod/llm-sft-1   0/3 nodes are available
"""
    assert facts(kube(text, nodes=("node-002",))) == [
        'k8s.pod name=llm-sft-0 reason=OOMKilled node=node-002 message="restarts 2"',
        "k8s.event type=Warning reason=FailedScheduling kind=Pod name=llm-sft-1 "
        'message="0/3 nodes are available"',
    ]


def test_a_yaml_with_aliases_is_left_to_the_scanner():
    bomb = "apiVersion: v1\nkind: Pod\na: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n"
    assert kube(bomb) is None


def test_deep_and_odd_objects_never_raise():
    assert kube("apiVersion: v1\nkind: Pod\nstatus: 5\n") is not None
    assert kube(json.dumps({"kind": "Pod", "apiVersion": 1, "status": {"containerStatuses": [3]}}))
    assert kube("apiVersion: " + "[" * 5000) is None


def test_pods_that_do_not_carry_the_jobs_name_are_its_own_where_no_pod_does():
    text = """\
Name:         llm-sft-67543
Kind:         Workload
Status:
  Conditions:
    Reason:                PodsReadyTimeout
    Status:                True
    Type:                  Evicted

NAME       READY   STATUS      RESTARTS   AGE   IP       NODE
worker-0   0/1     OOMKilled   0          58s   <none>   node-002
"""
    structured = kube(text)
    assert structured.others == []
    assert any("name=worker-0 reason=OOMKilled" in each for each in facts(structured))


def test_what_no_fact_was_made_of_stays_text():
    left = [line for _, _, line in kube(DESCRIBE).unconsumed]
    assert b"    Image:          trainer:1" in left
    assert b"      Reason:       OOMKilled" not in left
    text = json.dumps({"kind": "PersistentVolumeClaim", "apiVersion": "v1", "status": {}})
    assert kube(text) is None


def test_where_the_jobs_nodes_are_unknown_its_own_pods_say_them():
    structured = kube(json.dumps(POD))
    assert {fact.entity.node for fact in structured.facts} == {"node-002"}
