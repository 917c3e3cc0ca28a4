"""Announce a revision from what is stored of it."""

from connectors.protocol import ConnectorError
from engine.model.contract import Document
from engine.model.envelope import Envelope
from functions.adapters.notifier import Notifier
from functions.adapters.object_store import ObjectStore
from functions.adapters.results_table import ResultsTable, revision_key
from functions.attribute.revision import message, message_attributes


class RevisionMissingError(ConnectorError):
    """A revision that is to be announced is not in the table."""


class PublishTask(Document):
    """The input of the publish state."""

    attempt_key: str
    revision: int


def announce(
    task: PublishTask, store: ObjectStore, table: ResultsTable, *, notifier: Notifier
) -> tuple[str, Envelope]:
    """Publish a stored revision; returns the message id and the revision.

    Raises `RevisionMissingError`.
    """
    item = table.get(task.attempt_key, revision_key(task.revision))
    if item is None:
        raise RevisionMissingError(f"{task.attempt_key}: revision {task.revision} is not stored")
    envelope = Envelope.model_validate_json(store.get(item["envelope_key"])[0])
    # A revision of an older release says nothing of automation: then all of it counts as new.
    automated = item.get("automation_new")
    body = message(envelope, verdict_uri=store.uri(item["verdict_key"]), automated=automated or ())
    return notifier.announce(body, message_attributes(envelope, automated)), envelope
