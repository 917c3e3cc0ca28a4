"""What pages count: who suffered, verdicts in a time, and that each says what it counts."""

import pytest
from web_asking import Ask, asker, at_noon
from web_samples import Shelf, full

from engine.model.verdict import seal
from functions.query.app import View


@pytest.fixture(scope="module")
def ask(aws: Shelf) -> Ask:
    return asker(View(results=aws.results, now=at_noon))


@pytest.mark.parametrize(
    ("nodes", "world_size", "omitted", "told"),
    [
        (("node-001", "node-002"), 4, 0, "1 node (node-002) and 1 rank only suffered"),
        (("node-001", "node-002"), 4, 32, "1 node (node-002) and 33 ranks only suffered"),
        ((), 1, 1, "2 nodes (among them node-002) and 1 rank only suffered"),
        ((), 4, 1, "1 node (node-002), 1 rank and 1 more node or rank only suffered"),
        ((), 4, 32, "1 node (node-002), 1 rank and 32 more nodes or ranks only suffered"),
    ],
)
def test_victims_are_told_by_nodes_and_ranks_as_far_as_the_verdict_tells(
    aws: Shelf, ask: Ask, nodes: tuple[str, ...], world_size: int, omitted: int, told: str
) -> None:
    fields = full(f"800-{len(nodes)}-{world_size}-{omitted}").model_dump(mode="json")
    fields["workload"] |= {"nodes": nodes, "world_size": world_size}
    fields["affected_nodes"] = [
        {"node": "node-001", "role": "culprit"}, {"node": "node-002", "role": "victim"},
    ]  # fmt: skip
    fields["affected_ranks"] = [{"rank": 1, "node": "node-002", "role": "victim"}]
    fields["victims_omitted"] = omitted
    key = aws.put(seal(fields))
    assert told in ask(f"/attempts/{key}").body
