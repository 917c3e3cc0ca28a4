"""The topic that announces verdicts."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from connectors.protocol import ConnectorError
from functions.adapters.faults import AWS_ERRORS, TopicBusyError, error_code, is_busy

if TYPE_CHECKING:
    from mypy_boto3_sns import SNSClient


class TopicRefusedError(ConnectorError):
    """SNS refuses the message and a retry will not help."""


@dataclass(slots=True, frozen=True)
class Notifier:
    """One topic. Raises `TopicBusyError` where a retry may help."""

    client: "SNSClient"
    topic_arn: str

    def announce(self, message: Mapping[str, Any], attributes: Mapping[str, str]) -> str:
        """Publish a message with its attributes, all String; returns the message id."""
        try:
            answer = self.client.publish(
                TopicArn=self.topic_arn,
                Message=json.dumps(message, sort_keys=True, ensure_ascii=False),
                MessageAttributes={
                    name: {"DataType": "String", "StringValue": value}
                    for name, value in sorted(attributes.items())
                    if value
                },
            )
        except AWS_ERRORS as error:
            if is_busy(error):
                raise TopicBusyError(f"cannot publish now ({error_code(error)})") from error
            raise TopicRefusedError(
                f"cannot publish to {self.topic_arn} ({error_code(error)}); check its policy"
            ) from error
        return answer["MessageId"]
