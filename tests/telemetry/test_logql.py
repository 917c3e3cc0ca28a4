"""Every query that we make parses with Grafana's own LogQL grammar."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml

from connectors.telemetry.logql import count_query, exact_selector, line_filters, stream_selector
from engine.rulebook.pushdown import line_texts
from functions.adapters.rulebook import shipped_rulebook

ROOT = Path(__file__).parents[2]
GRAMMAR = ROOT / "build/logql"
HOSTILE = ['a"b', "a\\b", "a\nb", "{x}", "`tick`", "é ☃", "|= x", "$(x)", ""]


def parse(queries):
    """Return whether each query parses; the module is found from the build folder."""
    script = GRAMMAR / "parse.mjs"
    script.write_text((Path(__file__).parent / "logql_parse.mjs").read_text())
    done = subprocess.run(
        ["node", script], input=json.dumps(queries), capture_output=True, text=True, timeout=60,
        check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


@pytest.mark.system("lezer-logql")
def test_the_grammar_refuses_what_is_broken():
    assert parse(['{a="b"} |= "c"', '{a="b"', '{a="b"} |~ ', 'sum(rate({a="b"}[5m]'])[0] is True
    assert parse(['{a="b"', '{a="b"} |~ ', 'sum(rate({a="b"}[5m]']) == [False, False, False]


@pytest.mark.system("lezer-logql")
def test_selectors_of_hostile_names_parse():
    queries = [stream_selector({"job": "x", "name": each}) for each in HOSTILE]
    queries += [exact_selector({"a": each}, ["a", "b"]) for each in HOSTILE]
    queries += [stream_selector({"u": "k"}, node_label="node", nodes=HOSTILE[:-1])]
    queries += [count_query(each, 86_400) for each in list(queries)]
    assert parse(queries) == [True] * len(queries)


@pytest.mark.system("lezer-logql")
@pytest.mark.parametrize("source", ["applog", "syslog"])
def test_the_filters_of_all_rules_parse(source):
    texts = [(each.text, each.ignore_case) for each in line_texts(shipped_rulebook(), source)]
    queries = ['{job="7"}' + each for each in line_filters(texts)]
    assert parse(queries) == [True] * len(queries)


def samples():
    """Return (source, sample) of every signature that the rules hold."""
    for file in sorted((ROOT / "rules").rglob("*.yaml")):
        document = yaml.safe_load(file.read_text())
        if file.name.endswith(".cases.yaml") or not isinstance(document, dict):
            continue
        for signature in document.get("signatures") or ():
            sources = signature["sources"]
            for source in [sources] if isinstance(sources, str) else sources:
                for sample in signature["samples"]:
                    yield source, str(sample)


def test_every_sample_of_every_rule_passes_its_source_s_filter():
    book = shipped_rulebook()
    texts = {source: line_texts(book, source) for source in ("applog", "syslog")}
    lost = []
    count = 0
    for source, sample in samples():
        if source not in texts:
            continue
        count += 1
        low = sample.lower()
        if not any(
            each.text.lower() in low if each.ignore_case else each.text in sample
            for each in texts[source]
        ):
            lost.append((source, sample))
    assert lost == []
    assert count > 500


def test_a_filter_stays_within_what_proxies_take():
    texts = [(each.text, each.ignore_case) for each in line_texts(shipped_rulebook(), "applog")]
    assert all(len(each) < 4_000 for each in line_filters(texts))


def test_texts_are_there_as_shippers_in_go_write_them():
    texts = {each.text for each in line_texts(shipped_rulebook(), "applog")}
    assert "died with <Signals.SIGTERM" in texts
    assert r"died with \u003cSignals.SIGTERM" in texts
