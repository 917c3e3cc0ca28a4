"""The event source mapping: takes messages from the queue and hands them to the function.

As Lambda does: a batch at a time, `batchItemFailures` go back to the queue, the rest is deleted,
and the queue's own redrive policy moves what failed too often to the dead-letter queue. Failed
messages come back at once instead of after the visibility timeout.
"""

import json
from dataclasses import dataclass
from typing import Any

import boto3


@dataclass(slots=True)
class Delivery:
    """One mapping from a queue to a function."""

    queue_url: str
    queue_arn: str
    function: str
    batch_size: int
    _clients: tuple[Any, Any] | None = None

    def deliver(self, batches: int | None = None) -> int:
        """Deliver until the queue is empty, or so many batches; returns how many messages."""
        if self._clients is None:
            self._clients = boto3.client("sqs"), boto3.client("lambda")
        sqs, functions = self._clients
        count = taken = 0
        while (batches is None or taken < batches) and (
            messages := sqs.receive_message(
                QueueUrl=self.queue_url,
                MaxNumberOfMessages=self.batch_size,
                WaitTimeSeconds=0,
                MessageSystemAttributeNames=["All"],
            ).get("Messages")
        ):
            taken += 1
            count += len(messages)
            answer = functions.invoke(
                FunctionName=self.function,
                Payload=json.dumps({"Records": [self._record(each) for each in messages]}),
            )
            failed = self._failed(answer, messages)
            for each in messages:
                receipt = {"QueueUrl": self.queue_url, "ReceiptHandle": each["ReceiptHandle"]}
                if each["MessageId"] in failed:
                    sqs.change_message_visibility(**receipt, VisibilityTimeout=0)
                else:
                    sqs.delete_message(**receipt)
        return count

    def _failed(self, answer: Any, messages: list[Any]) -> set[str]:
        payload = json.loads(answer["Payload"].read() or b"null")
        if "FunctionError" in answer:
            return {each["MessageId"] for each in messages}
        failures = (payload or {}).get("batchItemFailures", ())
        return {each["itemIdentifier"] for each in failures}

    def _record(self, message: Any) -> dict[str, Any]:
        return {
            "messageId": message["MessageId"],
            "receiptHandle": message["ReceiptHandle"],
            "body": message["Body"],
            "attributes": message.get("Attributes", {}),
            "messageAttributes": {},
            "md5OfBody": message["MD5OfBody"],
            "eventSource": "aws:sqs",
            "eventSourceARN": self.queue_arn,
            "awsRegion": self.queue_arn.split(":")[3],
        }
