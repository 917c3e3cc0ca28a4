"""A small set of short texts that stands for a large one: for stores that take short filters.

Every text holds one of the short ones, so a filter by these keeps all that a filter by the texts
would, and more. It is chosen greedily: the piece that stands for most of what is left comes next.
"""

import heapq
from collections import defaultdict
from collections.abc import Collection
from typing import Final

PIECE: Final = 8
"""Characters of a piece: shorter ones are in too many lines, longer ones stand for too few."""


def coarse_texts(texts: Collection[str], piece: int = PIECE) -> tuple[str, ...]:
    """Return pieces, sorted, one of which every text holds; texts no longer stand for themselves.

    The same texts give the same pieces in any order.
    """
    listed = sorted(set(texts))
    holders: dict[str, set[int]] = defaultdict(set)
    for number, text in enumerate(listed):
        for start in range(max(1, len(text) - piece + 1)):
            holders[text[start : start + piece]].add(number)
    heap = [(-len(found), part) for part, found in holders.items()]
    heapq.heapify(heap)
    left = set(range(len(listed)))
    chosen: list[str] = []
    while left:
        _, part = heapq.heappop(heap)
        stands_for = len(holders[part] & left)
        if heap and -heap[0][0] > stands_for:
            heapq.heappush(heap, (-stands_for, part))
            continue
        if stands_for:
            chosen.append(part)
            left -= holders[part]
    return tuple(sorted(chosen))
