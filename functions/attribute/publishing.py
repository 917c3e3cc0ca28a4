"""Announce a revision from what is stored of it."""

from connectors.protocol import ConnectorError
from engine.model.contract import Document
from engine.model.envelope import Envelope
from functions.adapters.notifier import Notifier
from functions.adapters.object_store import ObjectStore
from functions.adapters.results_table import ANNOUNCED, Item, ResultsTable, revision_key
from functions.attribute.revision import message, message_attributes


class RevisionMissingError(ConnectorError):
    """A revision that is to be announced is not in the table."""


class PublishTask(Document):
    """The input of the publish state."""

    attempt_key: str
    revision: int


def announce(
    task: PublishTask, store: ObjectStore, table: ResultsTable, *, notifier: Notifier
) -> tuple[str, Envelope] | None:
    """Announce a stored revision, and before it those that nobody was told of.

    A workflow that ends between storing a revision and announcing it leaves it to the next one.
    Returns the message id and the revision, None where all were announced before. Raises
    `RevisionMissingError`.
    """
    untold: list[tuple[int, Item]] = []
    for revision in range(task.revision, 0, -1):
        item = table.get(task.attempt_key, revision_key(revision))
        if item is None and revision == task.revision:
            raise RevisionMissingError(f"{task.attempt_key}: revision {revision} is not stored")
        if item is None or item.get(ANNOUNCED):
            break
        untold.append((revision, item))
    told = None
    for revision, item in reversed(untold):
        told = _announce(item, store, notifier)
        table.note_announced(task.attempt_key, revision)
    return told


def _announce(item: Item, store: ObjectStore, notifier: Notifier) -> tuple[str, Envelope]:
    envelope = Envelope.model_validate_json(store.get(item["envelope_key"])[0])
    # A revision of an older release says nothing of automation: then all of it counts as new.
    automated = item.get("automation_new")
    body = message(envelope, verdict_uri=store.uri(item["verdict_key"]), automated=automated or ())
    return notifier.announce(body, message_attributes(envelope, automated)), envelope
