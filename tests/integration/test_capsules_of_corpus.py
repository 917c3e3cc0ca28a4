"""Logs that fit into their capsules say from there, byte for byte, what they said when read."""

import json
from pathlib import Path

import pytest

from connectors.bundle import load_bundle
from connectors.static import StaticConnector
from engine.extract.fold import fold
from engine.extract.redact import Redactor
from engine.extract.session import ExtractContext, extract_capsule
from engine.model.observation import encode
from functions.adapters.rulebook import scanners, shipped_rulebook
from functions.collect.capsules import ITEM_BYTES, read_capsules
from functions.collect.collection import Collecting, collect_item
from functions.scope.planning import WORKLOAD, RuleDigests, make_plan

CORPUS = Path(__file__).parents[1] / "corpus"


@pytest.mark.parametrize("bundle", sorted(CORPUS.iterdir()), ids=lambda each: each.name[:3])
def test_what_a_bundle_says_can_be_read_from_its_capsules(bundle: Path) -> None:
    book = shipped_rulebook()
    scanner = scanners.scanner_of(book)
    loaded = load_bundle(bundle)
    plan = make_plan(loaded.workload, loaded.evidence, digests=RuleDigests.of(book))
    collecting = Collecting(book=book, scanner=scanner, capsule_bytes=ITEM_BYTES)
    for item in plan.items:
        if item.connector == WORKLOAD:
            continue
        connector = StaticConnector(loaded.source)
        then = collect_item(
            item, workload=plan.workload, connector=connector, collecting=collecting
        )
        streams, report = read_capsules(then.capsules)
        context = ExtractContext(
            book=book, scanner=scanner, workload=plan.workload, connector=item.connector,
            extraction_digest=book.extraction_digest, redactor=Redactor(),
        )  # fmt: skip
        found = [extract_capsule(each, context) for each in streams]
        again = fold([each for one in found for each in one.observations])
        assert lines(encode(list(again))) == lines(encode(list(then.observations)))
        assert report == then.report
        assert all(each.is_whole or each.label.source == "metrics" for each in streams)


def lines(encoded: bytes) -> list[str]:
    return sorted(json.dumps(json.loads(line), sort_keys=True) for line in encoded.splitlines())
