"""What AWS refuses, told apart: worth a retry, or not. Step Functions matches the class names."""

from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,
    HTTPClientError,
)

from connectors.protocol import TransientError

_BUSY_CODES: Final = frozenset(
    {
        "ConditionalRequestConflict",
        "InternalError",
        "InternalFailure",
        "InternalServerError",
        "KMSThrottlingException",
        "OperationAborted",
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServiceUnavailable",
        "SlowDown",
        "Throttling",
        "ThrottlingException",
        "Throttled",
        "TooManyRequestsException",
        "TransactionInProgressException",
    }
)


class StoreBusyError(TransientError):
    """S3 throttles, is unavailable or could not be reached."""


class TableBusyError(TransientError):
    """DynamoDB throttles, is unavailable or could not be reached."""


class TopicBusyError(TransientError):
    """SNS throttles, is unavailable or could not be reached."""


class BusBusyError(TransientError):
    """EventBridge throttles, is unavailable or took only some of the events."""


class WorkflowBusyError(TransientError):
    """Step Functions throttles, is unavailable or could not be reached."""


AwsError = ClientError | BotoCoreError
AWS_ERRORS: Final = (ClientError, BotoCoreError)


def error_code(error: AwsError) -> str:
    """Return AWS's code for the failure, or the class name where there was no answer."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", ""))
    return type(error).__name__


def is_busy(error: AwsError) -> bool:
    """Whether a later retry may succeed: throttling, a 5xx answer, or no answer at all."""
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        return error_code(error) in _BUSY_CODES or status >= 500 or status == 429
    return isinstance(error, HTTPClientError | ConnectionError)
