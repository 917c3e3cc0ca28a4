"""Chunks put together: the stream they were cut from, in whatever way it was cut."""

from hypothesis import given
from hypothesis import strategies as st

from engine.model.workload import EvidenceSource
from functions.service.assembly import Assembled, Chunk, Run, assemble

STREAM = EvidenceSource(path="train.log", source="applog")
DATA = bytes(range(256)) * 2


def put_together(pieces: list[tuple[int, bytes]]) -> tuple[Assembled, list[bytes]]:
    """Assemble `(offset, bytes)` and return what each run reads."""
    contents = {f"c{number}": data for number, (_, data) in enumerate(pieces)}
    chunks = [
        Chunk(f"c{number}", STREAM, offset, len(data), data.hex())
        for number, (offset, data) in enumerate(pieces)
    ]
    found = assemble(chunks, lambda chunk, start, size: contents[chunk.chunk_id][start:][:size])

    def text(run: Run) -> bytes:
        return b"".join(
            contents[piece.chunk.chunk_id][piece.start : piece.start + piece.size]
            for piece in run.pieces
        )

    return found, [text(run) for run in found.runs]


@st.composite
def cuts(draw: st.DrawFn) -> list[tuple[int, bytes]]:
    """Pieces that cover the data, overlapping as they please, in any order."""
    pieces, at = [], 0
    while at < len(DATA):
        start = draw(st.integers(max(0, at - 40), at))
        end = draw(st.integers(at + 1, min(len(DATA), at + 120)))
        pieces.append((start, DATA[start:end]))
        at = end
    return draw(st.permutations(pieces))


@given(cuts())
def test_pieces_that_cover_a_stream_give_it_back(pieces: list[tuple[int, bytes]]) -> None:
    found, texts = put_together(pieces)
    assert texts == [DATA]
    assert (found.set_aside, found.runs[0].troubles) == ([], [])


@given(cuts(), st.data())
def test_what_is_missing_is_told_and_nothing_else_is_lost(
    pieces: list[tuple[int, bytes]], data: st.DataObject
) -> None:
    dropped = data.draw(st.integers(0, len(pieces) - 1))
    kept = [piece for number, piece in enumerate(pieces) if number != dropped]
    covered = {place for offset, text in kept for place in range(offset, offset + len(text))}
    found, texts = put_together(kept)
    held = {
        place for run, text in zip(found.runs, texts, strict=True)
        for place in range(run.start, run.start + len(text))
    }  # fmt: skip
    assert held == covered
    assert all(DATA[run.start : run.end] == text
               for run, text in zip(found.runs, texts, strict=True))  # fmt: skip
    has_gap = bool(set(range(max(covered, default=-1) + 1)) - covered)
    assert any(run.troubles for run in found.runs) is has_gap


def test_a_contradiction_inside_an_overlap_is_found_wherever_it_is() -> None:
    found, texts = put_together([(0, b"aaaa"), (2, b"aXbb")])
    assert texts == [b"aaaa"]
    assert [each.chunk_id for each in found.set_aside] == ["c1"]
    # By offset, then the longest: the one that begins at 3 joins first, the one at 4 contradicts.
    found, texts = put_together([(0, b"aaaa"), (4, b"bb"), (3, b"abX")])
    assert texts == [b"aaaabX"]
    assert [each.chunk_id for each in found.set_aside] == ["c1"]


def test_the_longest_of_those_that_begin_together_leads() -> None:
    found, texts = put_together([(0, b"ab"), (0, b"abcd"), (0, b"abc")])
    assert (texts, found.set_aside) == ([b"abcd"], [])
