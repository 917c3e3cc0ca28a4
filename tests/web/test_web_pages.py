"""The pages without a browser: what they say, what they refuse, and that hostile text is inert."""

import json
import re
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from web_asking import Ask, asker, at_noon
from web_samples import Shelf, bare, full, hostile, huge, quote, rivals

from engine.extract.redact import Redactor
from engine.model.verdict import seal
from functions.adapters.object_store import ObjectStore
from functions.query.app import View
from functions.query.graph_picture import graph_picture
from functions.query.timeline_picture import timeline_picture

SEEN = "/attempts/team-a/research/slurm/410050/r0"
MAY_STAND = set(
    re.findall(
        r"\w+",
        "html head meta title link body a header div svg path nav ul li form label input button "
        "main footer p h1 h2 h3 article dl dt dd section ol b code table caption thead tbody tr th "
        "td span time br pre mark details summary circle rect line g text desc select option ins "
        "del",
    )
)


@pytest.fixture(scope="module")
def shelf(aws: Shelf) -> Shelf:
    """Every kind of verdict, one of them in two revisions."""
    aws.put(rivals("410050"), status="provisional")
    aws.put(full(), revision=2)
    for verdict in (rivals(), bare(), hostile()):
        aws.put(verdict)
    return aws


@pytest.fixture(scope="module")
def ask(shelf: Shelf) -> Ask:
    return asker(View(results=shelf.results, now=at_noon))


class Elements(HTMLParser):
    """Which elements a browser would make, and what it would act on."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.names.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]


def pages(shelf: Shelf, ask: Ask) -> list[str]:
    """The addresses of every page of every stored verdict, and all lists."""
    found = ["/", "/nodes", "/trends", "/job?id=410050", "/node?name=node-003", "/gpu?name=1650222"]
    for result in shelf.results().page(select()).results:
        address = "/attempts/" + result.attempt_key
        found.append(address)
        body = ask(address).body
        found += re.findall(r'href="(/attempts/[^"#]*/evidence/[^"]*)"', body)[:2]
    return [*found, f"{SEEN}/revisions/1", f"{SEEN}/revisions/2/diff"]


def select() -> Any:
    from functions.adapters.results import Selection

    return Selection()


def get(ask: Ask, address: str) -> Any:
    path, _, query = address.partition("?")
    pairs = dict(each.split("=", 1) for each in query.split("&") if each)
    return ask(path, **pairs)


def test_every_page_answers_with_headers_that_forbid_scripts_and_frames(
    shelf: Shelf, ask: Ask
) -> None:
    for address in pages(shelf, ask):
        answer = get(ask, address)
        assert answer.status == 200, (address, answer.body[:300])
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "script-src" not in policy
        assert "unsafe" not in policy
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Cache-Control"] == "no-store"


def test_no_page_holds_an_element_or_attribute_that_a_log_line_brought(
    shelf: Shelf, ask: Ask
) -> None:
    for address in pages(shelf, ask):
        found = Elements(get(ask, address).body)
        assert found.names <= MAY_STAND, (address, found.names - MAY_STAND)
        for name, value in found.attributes:
            assert not name.startswith("on"), (address, name)
            assert name != "style", address
            if name in ("href", "action", "src"):
                assert value.startswith(("/", "#")), (address, value)
                assert not value.startswith("//"), (address, value)


def test_what_would_hide_or_reorder_text_is_shown_as_what_it_is(shelf: Shelf, ask: Ask) -> None:
    for address in pages(shelf, ask):
        body = get(ask, address).body
        assert not re.search(
            "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", body
        )
        assert "\u0303" not in body


def test_a_hostile_verdict_is_readable_and_small(shelf: Shelf, ask: Ask) -> None:
    (result,) = [r for r in shelf.results().page(select()).results if r.job_id == "666"]
    body = ask("/attempts/" + result.attempt_key).body
    assert "&lt;script&gt;window.hacked=1" in body
    assert "\\u202egnirts" in body
    assert "\\x1b[2J\\x00" in body
    assert "{{7*7}}" in body
    assert "more characters" in body
    assert len(body) < 1_000_000


def test_pictures_of_hostile_verdicts_are_well_formed(shelf: Shelf) -> None:
    for draw in (timeline_picture, graph_picture):
        picture = draw(hostile())
        assert picture is not None
        root = ElementTree.fromstring(str(picture))
        assert {each.tag for each in root.iter()} <= {
            "svg", "title", "desc", "rect", "line", "text", "path", "g",
        }  # fmt: skip


def test_ten_thousand_nodes_stay_below_two_megabytes(aws: Shelf, ask: Ask) -> None:
    key = aws.put(huge())
    body = ask(f"/attempts/{key}").body
    assert len(body.encode()) < 2_000_000
    assert "more in the JSON" in body or "are in the" in body
    assert len(ask("/").body.encode()) < 2_000_000


def test_the_verdict_page_says_the_answer_first(ask: Ask) -> None:
    body = ask(SEEN).body
    assert re.findall(r"<h([12])[^>]*>([^<]*)", body) == [
        ("1", "A GPU has fallen off the bus "),
        ("2", "What to do"),
        ("2", "Root cause"),
        ("2", "Timeline"),
        ("2", "Causal graph"),
        ("2", "Evidence"),
        ("2", "How sure, and what would change it"),
        ("2", "What was looked at"),
        ("2", "Symptoms"),
        ("2", "Revisions"),
        ("2", "The same again"),
    ]
    assert "Drain node" in body
    assert "on GPU 2 (0000:30:00) of node-003" in body
    assert "rootrank show team-a/research/slurm/410050/r0" in body
    assert "7 nodes (node-[001-002,004-008]) and 3 ranks only suffered" in body


def test_silence_is_drawn_and_told_as_silence(ask: Ask) -> None:
    body = ask(SEEN).body
    assert 'class="gap"' in body
    assert "no step was seen for 31 minutes" in body
    assert "lost" in body
    assert "the node did not come back" in body


def test_a_verdict_without_a_cause_blames_nobody_and_says_what_is_missing(ask: Ask) -> None:
    body = ask("/attempts/default/default/none/410052/r0").body
    assert "No cause found" in body
    assert "Take no machine out of service for this" in body
    assert "This is not a sign of health" in body


def test_rivals_stand_side_by_side(ask: Ask) -> None:
    body = ask("/attempts/team-a/research/slurm/410051/r0").body
    assert "Several causes fit" in body
    assert "Either of these" in body
    assert body.count("suspect</span> node") == 2


def test_each_page_has_a_twin_in_json(ask: Ask, shelf: Shelf) -> None:
    listed = json.loads(ask("/verdicts.json", domain="gpu").body)
    assert {each["job_id"] for each in listed["results"]} >= {"410050", "666"}
    result = shelf.results().current(SEEN.removeprefix("/attempts/"))
    assert result is not None
    assert ask(f"{SEEN}.json").body.encode() == shelf.results().document(result)
    assert json.loads(ask(f"{SEEN}/revisions/1.json").body)["domain"] == "unknown"
    parts = json.loads(ask("/gpu.json", name="1650222").body)["results"]
    assert {(part["node"], part["role"]) for part in parts} == {("node-003", "culprit")}
    parts = json.loads(ask("/node.json", name="node-003").body)["results"]
    assert {each["role"] for each in parts if each["job_id"] == "410050"} == {"culprit"}
    assert json.loads(ask("/nodes.json").body)["nodes"]
    assert json.loads(ask("/trends.json", of="quality").body)["subject"] == "quality"
    for subject in ("user", "cluster", "failure_class"):
        told = json.loads(ask("/trends.json", of=subject, since="900w").body)
        assert (told["subject"], told["counted"] > 0) == (subject, True)
    assert json.loads(ask("/job.json", id="410050").body)["results"][0]["revision"] == 2


def test_a_nodes_page_names_causes_and_parts(ask: Ask) -> None:
    body = ask("/node", name="node-003", cluster="team-a/research").body
    assert "A GPU has fallen off the bus" in body
    assert "culprit</span>" in body
    gpu = ask("/gpu", name="1650222").body
    assert "/node?cluster=team-a%2Fresearch&amp;name=node-003" in gpu
    assert "No part in any verdict" in ask("/gpu", name="unheard-of").body


def test_an_old_revision_says_so_and_the_diff_shows_what_changed(ask: Ask) -> None:
    old = ask(f"{SEEN}/revisions/1").body
    assert "This is revision 1, replaced since" in old
    assert "--revision 1" in old
    diff = ask(f"{SEEN}/revisions/2/diff").body
    assert "<ins>gpu_fallen_off_bus</ins>" in diff
    assert "<del>ambiguous_causes</del>" in diff


@pytest.mark.parametrize(
    ("address", "status", "told"),
    [
        ("/attempts/a/b/c/d/r0", 404, "no verdict is stored"),
        (f"{SEEN}/revisions/9", 404, "no revision 9, only up to 2"),
        (f"{SEEN}/revisions/1/diff", 404, "none before it"),
        (f"{SEEN}/evidence/ev-none", 404, "no such evidence"),
        ("/elsewhere", 404, "Nothing is at this address"),
        ("/static/../pages.py", 404, "Nothing is at this address"),
        ("/static/pages.py", 404, "no such file"),
        ("/?cursor=nonsense", 400, "not one that was given out"),
        ("/?domain=moon", 400, "domain is none of"),
        ("/?since=tomorrow", 400, "neither an age"),
        ("/node", 400, "name is needed"),
        ("/trends?by=hour", 400, "by is one of"),
    ],
)
def test_a_wrong_address_says_what_is_wrong(ask: Ask, address: str, status: int, told: str) -> None:
    answer = get(ask, address)
    assert (answer.status, told in answer.body) == (status, True), answer.body
    assert "Content-Security-Policy" in answer.headers


@pytest.mark.parametrize(
    ("asked", "to"),
    [
        ("410050", SEEN),
        ("team-a/research/slurm/410050/r0", SEEN),
        ("node-003", "/node?name=node-003"),
        ("1650222", "/gpu?name=1650222"),
    ],
)
def test_find_leads_to_attempts_nodes_and_gpus(ask: Ask, asked: str, to: str) -> None:
    answer = ask("/find", q=asked)
    assert (answer.status, answer.headers["Location"]) == (303, to)


def test_a_job_id_on_several_clusters_is_a_list(aws: Shelf, ask: Ask) -> None:
    other = full("410050").model_dump(mode="json")
    other["workload"]["cluster"] = "second"
    aws.put(seal(other))
    assert ask("/find", q="410050").headers["Location"] == "/job?id=410050"
    assert ask("/job", id="410050").body.count('scope="row"') == 2


def test_filters_narrow_and_pages_go_on(aws: Shelf, ask: Ask) -> None:
    assert "410052" not in ask("/", domain="gpu").body
    assert "410050" in ask("/", since="24h").body
    assert "410052" in ask("/", quality="insufficient").body
    nothing = ask("/", domain="data").body
    assert "No verdict matches" in nothing
    assert "says nothing about health" in nothing


def test_without_results_the_front_page_says_how_to_get_some() -> None:
    ask = asker(View(results=lambda: None, local=".rootrank"))
    body = ask("/").body
    assert "No verdicts yet" in body
    assert "rootrank run events/demo.json --state .rootrank" in body
    assert ask("/nodes").status == 404


def with_bundle(aws: Shelf, log: bytes, *, job_id: str, cited: bytes) -> str:
    """A verdict that cites a line of a bundle that is in the bucket."""
    key = f"team-a/research/slurm/{job_id}/r0"
    plan = {
        "attempt_key": key, "generation": 1, "collection": 1, "rules_version": "1",
        "extraction_digest": "", "reasoning_digest": "", "windows": [],
        "workload": {"scheduler": "slurm", "job_id": job_id}, "items": [{
            "item_id": "i-1", "connector": "static", "shard": "s", "source": "syslog",
            "windows": [],
            "base_uri": f"s3://renamed-since/bundles/{job_id}/",
        }],
    }  # fmt: skip
    store = ObjectStore(aws.s3, aws.bucket)
    body = json.dumps(plan).encode()
    store.put_once(f"{key}/plans/g0001-c1/plan.json", body, content_type="application/json")
    store.put_once(f"bundles/{job_id}/node-003/dmesg.log", log, content_type="text/plain")
    at = log.index(cited)
    line = log[:at].count(b"\n") + 1
    evidence = quote(1, cited.decode(), byte_offset=at, byte_length=len(cited), line=line)
    fields = full(job_id).model_dump(mode="json")
    fields["evidence"][0] = evidence
    aws.put(seal(fields))
    return f"/attempts/{key}"


def test_evidence_stands_among_the_lines_round_it_and_secrets_are_masked(
    aws: Shelf, ask: Ask
) -> None:
    lines = [f"line {number}" for number in range(1, 101)]
    lines[49], lines[50] = "NVRM: Xid 79", "export AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPx"
    log = "\n".join(lines).encode()
    address = with_bundle(aws, log, job_id="700", cited=b"NVRM: Xid 79")
    body = ask(address).body
    shown = re.findall(r'<span class="no">(\d+)</span>', body)
    assert shown[:7] == ["47", "48", "49", "50", "51", "52", "53"]
    assert "<mark>NVRM: Xid 79</mark>" in body
    assert "wJalrXUtnFEMI" not in body
    more = ask(f"{address}/revisions/1/evidence/ev-000000000001").body
    assert '<span class="no">10</span>line 10' in more
    assert '<span class="no">90</span>line 90' in more
    assert '<span class="no">91</span>' not in more


def test_a_sites_own_masking_holds_for_the_lines_round_evidence(aws: Shelf) -> None:
    view = View(results=aws.results, redactor=lambda: Redactor([r"project-\w+"]), now=at_noon)
    log = b"before project-apollo\nNVRM: Xid 79\nafter"
    address = with_bundle(aws, log, job_id="701", cited=b"NVRM: Xid 79")
    body = asker(view)(address).body
    assert "before" in body
    assert "project-apollo" not in body


def test_without_the_bundle_the_excerpt_stands_and_says_why(ask: Ask) -> None:
    gone = ask(f"{SEEN}/revisions/2/evidence/ev-000000000001").body
    assert "the bundle is no longer in the bucket" in gone
    assert "Xid (PCI:0000:30:00): 79" in gone
    live = ask(f"{SEEN}/revisions/2/evidence/ev-000000000003").body
    assert "it was read live by the connector loki" in live


def test_where_the_site_file_cannot_be_read_no_raw_line_is_shown(aws: Shelf) -> None:
    from connectors.site import SiteError

    def refuse() -> Redactor:
        raise SiteError("ssm:/x: cannot be read")

    log = b"before secret\nNVRM: Xid 79\nafter"
    address = with_bundle(aws, log, job_id="702", cited=b"NVRM: Xid 79")
    body = asker(View(results=aws.results, redactor=refuse))(address).body
    assert "before secret" not in body
    assert "NVRM: Xid 79" in body


def test_a_document_whose_lifetime_is_over_is_told_as_such(aws: Shelf, ask: Ask) -> None:
    key = aws.put(full("703"))
    result = aws.results().current(key)
    assert result is not None
    aws.s3.delete_object(Bucket=aws.bucket, Key=result.envelope_key)
    answer = ask(f"/attempts/{key}")
    assert (answer.status, "No longer kept" in answer.body) == (404, True)


def test_a_job_id_that_looks_like_an_escape_is_found_however_the_gateway_decodes(
    aws: Shelf, ask: Ask
) -> None:
    key = aws.put(full("50%2F7 é"))
    assert "%25" in key
    from urllib.parse import quote as escaped
    from urllib.parse import unquote

    link = "/attempts/" + escaped(key, safe="/")
    for seen in (link, unquote(link)):
        assert ask(seen).status == 200, seen
    assert ask(f"{link}/revisions/1").status == 200


def test_the_clock_of_the_page_is_the_one_that_was_given(shelf: Shelf) -> None:
    late = View(results=shelf.results, now=lambda: datetime(2027, 1, 1, tzinfo=UTC))
    assert "410050" not in asker(late)("/", since="24h").body


def test_styles_and_templates_name_no_other_host(root: Path) -> None:
    for path in (root / "functions/query").rglob("*.*"):
        if path.suffix in (".html", ".css"):
            text = path.read_text()
            assert "http://" not in text
            assert "https://" not in text
            assert "<script" not in text
            assert "|safe" not in text
