"""A connector whose evidence is a few whole answers: each is asked for, none loses the others.

The order of the parts is fixed by name, so that a cursor (the name to go on from) means the same
in every run.
"""

import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from connectors.protocol import (
    BudgetSpentError,
    ByteStream,
    Collected,
    ConnectorError,
    SourceAbsentError,
    SourceNotConfiguredError,
    TransientError,
)
from connectors.static import BlobStream
from engine.model.stream import StreamLabel


@dataclass(slots=True, frozen=True)
class Part:
    """One answer to be: its label, and how to get its bytes. Empty bytes make no stream."""

    label: StreamLabel
    fetch: Callable[[], bytes]


def open_parts(
    parts: Sequence[Part], *, cursor: str | None, collected: Collected
) -> Iterator[ByteStream]:
    """Yield a stream for each part that can be had.

    What is absent or refused is noted in `collected`. A transient failure is raised when all
    other parts have been read, so that a retry can get what is left.
    """
    pending: TransientError | None = None
    for part in sorted(parts, key=lambda each: each.label.uri):
        uri = part.label.uri
        if cursor is not None and uri < cursor:
            continue
        try:
            body = part.fetch()
        except BudgetSpentError as error:
            collected.cursor = uri
            collected.warnings.append(str(error))
            return
        except TransientError as error:
            pending = pending or error
            continue
        except SourceNotConfiguredError:
            raise
        except SourceAbsentError as error:
            collected.paths_missing.append(uri)
            collected.warnings.append(str(error))
            continue
        except ConnectorError as error:
            collected.paths_missing.append(uri)
            collected.warnings.append(f"{uri}: {error}")
            continue
        if body.strip():
            yield BlobStream(part.label, io.BytesIO(body))
    if pending is not None:
        raise pending
