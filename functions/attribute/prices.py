"""What AWS asks for what we use: list prices of us-east-1, on demand, without any free tier.

Other regions differ by some ten per cent; change the table, and its date with it. Sources:
aws.amazon.com/lambda/pricing, /step-functions/pricing, /s3/pricing, /dynamodb/pricing/on-demand,
/sns/pricing, /sqs/pricing, /eventbridge/pricing.
"""

from decimal import Decimal
from typing import Final

PRICED_ON: Final = "2025-07-21"
"""When the prices were looked up."""

GB_SECOND: Final = {"arm64": Decimal("0.0000133334"), "x86_64": Decimal("0.0000166667")}
INVOCATION: Final = Decimal("0.0000002")
TRANSITION: Final = Decimal("0.000025")
"""One state of a standard workflow; retries count, and so do the children of a Map."""
S3_WRITE: Final = Decimal("0.000005")
"""PUT, COPY, POST, LIST."""
S3_READ: Final = Decimal("0.0000004")
TABLE_WRITE: Final = Decimal("0.000000625")
"""One write request unit: 1 KB, twice that in a transaction, and once more per index."""
TABLE_READ: Final = Decimal("0.000000125")
"""One read request unit: 4 KB, read consistently."""
PUBLISH: Final = Decimal("0.0000005")
QUEUE_REQUEST: Final = Decimal("0.0000004")
BUS_EVENT: Final = Decimal("0.000001")

CALL: Final = {
    "s3.GetObject": S3_READ,
    "s3.HeadObject": S3_READ,
    "s3.PutObject": S3_WRITE,
    "s3.ListObjectsV2": S3_WRITE,
    # Units of a usual item (docs/storage.md): CURRENT of 4 KB, in three indexes.
    "dynamodb.GetItem": TABLE_READ * 2,
    "dynamodb.Query": TABLE_READ * 4,
    "dynamodb.PutItem": TABLE_WRITE,
    "dynamodb.UpdateItem": TABLE_WRITE * 4,
    "dynamodb.TransactWriteItems": TABLE_WRITE * 48,
    "sns.Publish": PUBLISH,
    "sqs.SendMessage": QUEUE_REQUEST,
    "sqs.ReceiveMessage": QUEUE_REQUEST,
    "sqs.DeleteMessage": QUEUE_REQUEST,
    "events.PutEvents": BUS_EVENT,
}
"""AWS calls by `service.Operation`; one that is not here costs nothing of its own."""
