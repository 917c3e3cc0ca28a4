"""Wraps payloads as SQS hands them to the admitting function.

python3 events/queued.py events/batch-failed.json | sam local invoke ScopeAdmitFunction --event -
"""

import json
import sys
from pathlib import Path


def queued(*bodies: str) -> dict[str, list[dict[str, object]]]:
    """Return the event of one delivery, a record for each body."""
    return {
        "Records": [
            {
                "messageId": f"m-{number}", "receiptHandle": "r", "body": body, "attributes": {},
                "messageAttributes": {}, "md5OfBody": "", "eventSource": "aws:sqs",
                "eventSourceARN": "arn:aws:sqs:us-east-1:123456789012:q", "awsRegion": "us-east-1",
            }
            for number, body in enumerate(bodies)
        ]
    }  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python3 events/queued.py PAYLOAD.json ...")
    texts = [Path(path).read_text(encoding="utf-8") for path in sys.argv[1:]]
    sys.stdout.write(json.dumps(queued(*texts)) + "\n")
