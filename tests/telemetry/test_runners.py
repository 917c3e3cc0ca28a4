"""Items that run outside the stack: handed over, collected beside the logs, answered by token."""

import importlib
import json
import threading
import time

import boto3
import click
import pytest
from click.testing import CliRunner
from samtranslator.yaml_helper import yaml_parse
from test_site_pipeline import LOG, WORKLOAD

from connectors.protocol import ConnectorError
from engine.extract.redact import Redactor
from engine.model.canonical import canonical_json
from engine.model.plan import Plan
from engine.model.workload import Workload
from functions.adapters.exchange import Exchange, ExchangeBusyError, ExchangeRefusedError
from functions.adapters.object_store import ObjectStore
from functions.adapters.results_query import ResultsQuery
from functions.adapters.rulebook import scanners, shipped_rulebook
from functions.adapters.runner_queue import QueueBusyError, RunnerQueue, Taken, region_of
from functions.adapters.site_file import configured_site
from functions.adapters.site_sources import SiteConnector
from functions.collect.capsules import read_capsules
from functions.collect.handover import HandOverTask, make_hand_over
from functions.collect.outside import HandOverError, OutsideRunner, answer, read_hand_over
from functions.collect.receipt import Receipt
from functions.scope.planning import RuleDigests
from functions.scope.telemetry import telemetry_items
from rootrank.cli import main
from rootrank.embedded.stack import open_stack

KEY = "default/a/slurm/700/t1767225600"


@pytest.fixture(scope="module")
def book():
    return shipped_rulebook()


@pytest.fixture
def site(tmp_path, monkeypatch):
    logs = tmp_path / "logs/700"
    logs.mkdir(parents=True)
    (logs / "rank-0.log").write_text(LOG)
    path = tmp_path / "sources.yaml"
    path.write_text(
        "version: 1\nclusters:\n  - name: a\n    runner: edge\n    files:\n"
        f"      - {{root: {tmp_path / 'logs'}, patterns: ['{{job_id}}/rank-{{rank}}.log']}}\n"
    )
    monkeypatch.setenv("SOURCES", str(path))
    configured_site.cache_clear()
    yield path
    configured_site.cache_clear()


class Objects:
    """A bucket behind addresses: what the exchange gives a runner."""

    def __init__(self, store):
        self.store = store
        self.refused = set()

    def get(self, url):
        return self.store[key_of(url)]

    def put_once(self, url, body, *, content_type, lifetime="evidence"):
        if key_of(url) in self.store:
            return False
        self.store[key_of(url)] = body
        return True


def key_of(url):
    return url.partition("?")[0].partition(".com/")[2]


class Waiting:
    """A workflow that waits, until it does not."""

    def __init__(self, *, waits=True):
        self.waits = waits
        self.told = []

    def beat(self, token):
        return self.waits

    def succeed(self, token, output):
        self.told.append((token, json.loads(output)))
        return self.waits

    def fail(self, token, error, cause):
        self.told.append((token, error))
        return self.waits


@pytest.fixture
def handed(site, book, monkeypatch):
    """A plan with one item, and its hand-over."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    job = Workload.model_validate(WORKLOAD)
    (item,) = telemetry_items(configured_site().cluster("a"), job, book=book, windows=())
    digests = RuleDigests.of(book)
    plan = Plan(
        attempt_key=KEY, generation=1, workload=job, items=(item,), rules_version=digests.version,
        extraction_digest=digests.extraction, reasoning_digest=digests.reasoning,
    )  # fmt: skip
    objects = Objects({"plans/plan.json": canonical_json(plan.model_dump(mode="json"))})
    task = HandOverTask(
        attempt_key=KEY, generation=1, collection=1, plan_key="plans/plan.json", item=item,
        task_token="token-1",
    )  # fmt: skip
    client = boto3.client("s3", region_name="us-east-1")
    return make_hand_over(task, ObjectStore(client, "bucket")), objects


def runner(objects, book):
    return OutsideRunner(
        objects,
        book,
        scanners.scanner_of(book),
        Redactor(),
        lambda item: SiteConnector(),
        lambda: 0.0,
    )


def receipt_of(handed, objects):
    return Receipt.model_validate_json(objects.store[handed.receipt.key])


def test_an_item_says_who_runs_it(site, book):
    job = Workload.model_validate(WORKLOAD)
    (item,) = telemetry_items(configured_site().cluster("a"), job, book=book, windows=())
    assert item.runner == "edge"
    assert item.model_dump(exclude_unset=True)["runner"] == "edge"


def test_a_runner_leaves_observations_and_a_receipt_and_answers(handed, book):
    message, objects = handed
    waiting = Waiting()
    report = answer(message, runner(objects, book), waiting, seconds=60)
    assert report.status == "ok"
    assert waiting.told == [("token-1", {"item_id": message.item_id, "status": "ok"})]
    stored = receipt_of(message, objects)
    assert stored.report == report
    assert stored.observations.key == message.observations.key
    assert message.observations.key in objects.store


def test_a_runner_leaves_capsules_where_the_message_says_so(handed, book):
    message, objects = handed
    answer(message, runner(objects, book), Waiting(), seconds=60)
    streams, report = read_capsules(objects.store[message.capsules.key])
    assert streams[0].kept
    assert report == receipt_of(message, objects).report
    # A message of a release before names no place for them.
    before = message.model_copy(update={"capsules": None})
    objects.store.pop(message.capsules.key)
    objects.store.pop(message.receipt.key)
    answer(before, runner(objects, book), Waiting(), seconds=60)
    assert message.capsules.key not in objects.store
    assert message.receipt.key in objects.store


def test_capsules_that_cannot_be_left_are_told_and_lose_nothing_else(handed, book):
    message, objects = handed

    class Refusing(Objects):
        def put_once(self, url, body, *, content_type, lifetime="evidence"):
            if lifetime == "capsule":
                raise ExchangeRefusedError("the address may have expired")
            return super().put_once(url, body, content_type=content_type)

    refusing = Refusing(objects.store)
    answer(message, runner(refusing, book), Waiting(), seconds=60)
    report = receipt_of(message, refusing).report
    assert report.status == "ok"
    assert report.warnings == ("no capsules were stored: the address may have expired",)


def test_what_is_delivered_twice_counts_once(handed, book):
    message, objects = handed
    answer(message, runner(objects, book), Waiting(), seconds=60)
    before = dict(objects.store)
    answer(message, runner(objects, book), Waiting(), seconds=60)
    assert objects.store == before


def test_a_runner_that_died_between_two_writes_is_taken_over(handed, book):
    message, objects = handed
    answer(message, runner(objects, book), Waiting(), seconds=60)
    whole = receipt_of(message, objects)
    del objects.store[message.receipt.key]
    answer(message, runner(objects, book), Waiting(), seconds=60)
    assert receipt_of(message, objects) == whole


def test_nothing_is_read_for_a_workflow_that_went_on(handed, book):
    message, objects = handed
    assert answer(message, runner(objects, book), Waiting(waits=False), seconds=60) is None
    assert message.receipt.key not in objects.store


def test_a_runner_with_other_rules_says_so_and_collects_nothing(handed, book):
    message, objects = handed
    plan = json.loads(objects.store["plans/plan.json"])
    plan["extraction_digest"] = "sha256:other"
    objects.store["plans/plan.json"] = json.dumps(plan).encode()
    report = answer(message, runner(objects, book), Waiting(), seconds=60)
    assert report.status == "error"
    assert "install the same release" in report.reason
    assert receipt_of(message, objects).observations is None


def test_an_item_that_the_plan_does_not_name_is_told_to_the_workflow(handed, book):
    message, objects = handed
    waiting = Waiting()
    stray = message.model_copy(update={"item_id": "i-other"})
    with pytest.raises(HandOverError, match="does not name it"):
        answer(stray, runner(objects, book), waiting, seconds=60)
    assert waiting.told == [("token-1", "HandOverError")]


@pytest.mark.parametrize("body", ["", "[]", '{"item_id": "i"}'])
def test_a_message_that_is_no_hand_over_is_refused(body):
    with pytest.raises(HandOverError):
        read_hand_over(body)


class Store:
    """An HTTP store that answers with given states."""

    def __init__(self, *states):
        self.states = list(states)
        self.asked = []

    def request(self, method, url, *, content, headers):
        import httpx

        self.asked.append((method, headers))
        return httpx.Response(self.states.pop(0), content=b"x", request=httpx.Request(method, url))


def test_objects_are_written_once_over_https_only():
    store = Store(503, 200, 200)
    exchange = Exchange(store, lambda seconds: None)
    assert exchange.put_once("https://s3/x", b"b", content_type="application/json")
    method, headers = store.asked[-1]
    assert method == "PUT"
    assert headers == {
        "Content-Type": "application/json",
        "If-None-Match": "*",
        "x-amz-tagging": "lifetime=evidence",
    }
    exchange.put_once("https://s3/y", b"b", content_type="t", lifetime="capsule")
    assert store.asked[-1][1]["x-amz-tagging"] == "lifetime=capsule"
    assert not Exchange(Store(412), lambda s: None).put_once("https://s3/x", b"", content_type="t")
    with pytest.raises(ExchangeRefusedError, match="must be https"):
        exchange.get("http://somewhere/x")


def test_an_address_that_expired_is_told_without_the_address():
    with pytest.raises(ExchangeRefusedError, match="may have expired") as told:
        Exchange(Store(403), lambda s: None).get("https://s3.example/key?X-Amz-Signature=abc")
    assert "abc" not in str(told.value)


def test_a_store_that_stays_busy_is_a_transient_error():
    with pytest.raises(ExchangeBusyError):
        Exchange(Store(500, 500, 500, 500), lambda s: None).get("https://s3.example/key")


class OverMoto:
    """Objects by presigned address inside moto, which answers boto3 only."""

    def __init__(self, store):
        self.store = store

    def get(self, url):
        return self.store.get(self._key(url))[0]

    def put_once(self, url, body, *, content_type, lifetime="evidence"):
        try:
            self.store.put_once(self._key(url), body, content_type=content_type)
        except ConnectorError:
            return False
        return True

    def _key(self, url):
        return url.partition("?")[0].partition(".com/")[2].removeprefix(f"{self.store.bucket}/")


def serve(queue_url, book, store, sfn, done):
    """A login node: takes items until the workflow is done."""
    queue = RunnerQueue(boto3.client("sqs"), queue_url)
    from functions.adapters.runner_queue import WaitingWorkflow

    while not done.is_set():
        taken = queue.take(0)
        if taken is None:
            time.sleep(0.05)
            continue
        answer(
            read_hand_over(taken.body), runner(OverMoto(store), book), WaitingWorkflow(sfn),
            seconds=60,
        )  # fmt: skip
        queue.drop(taken)


def attributed(folder, during, after=lambda: None):
    with open_stack(folder) as stack:
        during(stack)
        stack.put_event(
            {
                "source": "rootrank.scheduler",
                "detail-type": "Job Completed",
                "detail": {"version": 1, "workload": WORKLOAD},
            }
        )
        stack.settle(60)
        after()
        query = ResultsQuery(stack.client("dynamodb"), stack.resources.table)
        store = ObjectStore(stack.client("s3"), stack.resources.bucket)
        return json.loads(store.get(query.current(KEY)["verdict_key"])[0])


def test_a_login_node_collects_for_the_workflow_that_waits(site, tmp_path, book):
    done = threading.Event()
    threads = []

    def during(stack):
        url = stack.client("sqs").get_queue_url(QueueName="rootrank-runner")["QueueUrl"]
        store = ObjectStore(stack.client("s3"), stack.resources.bucket)
        given = (url, book, store, stack.client("stepfunctions"), done)
        threads.append(threading.Thread(target=serve, args=given, daemon=True))
        threads[0].start()

    def after():
        done.set()
        threads[0].join(10)

    verdict = attributed(tmp_path / "state", during, after)
    assert verdict["failure_class"] == "cuda_oom"
    (report,) = [each for each in verdict["connector_reports"] if each["connector"] == "files"]
    assert report["status"] == "ok"


def test_a_queue_that_nobody_reads_is_told_in_the_verdict(site, tmp_path, monkeypatch):
    from rootrank.embedded import template

    read = template.read_template

    def hasty(*args):
        found = read(*args)
        machine = found["Resources"]["AttributionStateMachine"]["Properties"]["Definition"]
        states = machine["States"]["Collect"]["ItemProcessor"]["States"]
        states["HandOver"]["HeartbeatSeconds"] = 1
        return found

    monkeypatch.setattr("rootrank.embedded.stack.read_template", hasty)
    verdict = attributed(tmp_path / "state", lambda stack: None)
    (report,) = [each for each in verdict["connector_reports"] if each["connector"] == "files"]
    assert report["status"] == "error"
    assert "the edge runner did not answer" in report["reason"]
    assert verdict["domain"] == "unknown"
    assert {e["state"] for e in verdict["coverage"] if e["source"] == "applog"} == {"failed"}


def test_a_spoke_answers_what_it_can_run_and_gives_the_rest_back(handed, site, monkeypatch):
    from functions.collect import serve_handler as handler

    message, objects = handed
    waiting = Waiting()
    monkeypatch.setattr(handler, "open_exchange", lambda: objects)
    monkeypatch.setattr(handler, "open_workflow", lambda role: waiting)
    records = [
        {"messageId": name, "body": body, "eventSource": "aws:sqs"}
        for name, body in (("good", message.model_dump_json()), ("bad", "{}"))
    ]
    given = handler.serve({"Records": records}, Context())
    assert given == {"batchItemFailures": [{"itemIdentifier": "bad"}]}
    assert [output["status"] for _, output in waiting.told] == ["ok"]


class Context:
    """Lambda's, as far as it is used."""

    def get_remaining_time_in_millis(self):
        return 60_000


def test_the_spoke_s_template_names_what_there_is(root):
    template = yaml_parse((root / "infra/spoke/template.yaml").read_text())
    function = template["Resources"]["ServeFunction"]["Properties"]
    module, name = function["Handler"].rsplit(".", 1)
    assert callable(getattr(importlib.import_module(module), name))
    queue = template["Resources"]["Queue"]["Properties"]
    assert queue["VisibilityTimeout"] == 6 * function["Timeout"]
    assert "ServeFunction" in (root / "infra/build.mk").read_text()


class Queue:
    """A queue of given bodies."""

    def __init__(self, *bodies):
        self.left = [Taken(body, f"h{number}") for number, body in enumerate(bodies)]
        self.dropped = []

    def take(self, wait_s):
        return self.left.pop(0) if self.left else None

    def drop(self, taken):
        self.dropped.append(taken.handle)

    def renew(self, taken):
        pass


def test_a_login_node_empties_its_queue_and_says_what_came(handed, book, monkeypatch, capsys):
    from rootrank import edge

    message, objects = handed
    queue, waiting = Queue("no hand-over", message.model_dump_json()), Waiting()
    monkeypatch.setattr(edge, "open_queue", lambda url: queue)
    monkeypatch.setattr(edge, "open_workflow", lambda region: waiting)
    edge.serve_queue("https://sqs.eu-west-1.amazonaws.com/1/q", runner(objects, book), is_once=True)
    told = capsys.readouterr()
    assert json.loads(told.out)["status"] == "ok"
    assert "a message that is no hand-over" in told.err
    assert queue.dropped == ["h0", "h1"]
    assert len(waiting.told) == 1


def test_what_a_retry_cures_stays_on_the_queue(handed, book, monkeypatch, capsys):
    from rootrank import edge

    message, objects = handed
    queue = Queue(message.model_dump_json())
    monkeypatch.setattr(edge, "open_queue", lambda url: queue)
    monkeypatch.setattr(edge, "open_workflow", lambda region: Waiting())

    def busy(url):
        raise ExchangeBusyError("s3.example: HTTP 503")

    objects.get = busy
    edge.serve_queue("https://sqs.eu-west-1.amazonaws.com/1/q", runner(objects, book), is_once=True)
    assert queue.dropped == []
    assert "stays on the queue" in capsys.readouterr().err


def test_a_queue_that_cannot_be_read_ends_a_run_once_and_is_tried_again_else(
    handed, book, monkeypatch, capsys
):
    from rootrank import edge

    _, objects = handed

    class Stopped(Exception):
        """What ends the endless loop."""

    def fail(wait_s):
        raise QueueBusyError("cannot read it now")

    def stop(seconds):
        raise Stopped

    queue = Queue()
    queue.take = fail
    monkeypatch.setattr(edge, "open_queue", lambda url: queue)
    monkeypatch.setattr(edge, "open_workflow", lambda region: Waiting())
    given = "https://sqs.eu-west-1.amazonaws.com/1/q", runner(objects, book)
    with pytest.raises(click.ClickException, match="cannot read it now"):
        edge.serve_queue(*given, is_once=True)
    with pytest.raises(Stopped):
        edge.serve_queue(*given, is_once=False, pause=stop)
    assert "trying again" in capsys.readouterr().err


def test_the_region_is_that_of_the_queue():
    assert region_of("https://sqs.eu-west-1.amazonaws.com/1/q") == "eu-west-1"
    assert region_of("http://127.0.0.1:5000/1/q") is None


def test_a_login_node_without_credentials_says_so_in_a_sentence(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(boto3, "DEFAULT_SESSION", None)  # it keeps credentials of other tests
    url = "https://sqs.eu-west-1.amazonaws.com/1/q"
    done = CliRunner().invoke(main, ["collect", "--queue", url, "--once"])
    assert done.exit_code == 1
    assert "NoCredentialsError" in done.output
    assert "check the runner's role" in done.output


def test_item_and_queue_are_alternatives():
    done = CliRunner().invoke(main, ["collect"])
    assert done.exit_code == 2
    assert "give either --item or --queue" in done.output
