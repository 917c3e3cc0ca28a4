"""CloudWatch Logs on loopback, for AWS's own client: pages, tokens, filters, errors in its words.

Rules from AWS's documentation of the API: `GetLogEvents` takes `[start, end)` and gives the same
forward token again at the end; `FilterLogEvents` takes `[start, end]`, may give empty pages before
the last, and names an event by id; a pattern between percent signs is a regular expression.
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import boto3
import re2
from botocore.config import Config

_PATTERN = re.compile(r"^%(.+)%$", re.DOTALL)


class CloudWatchServer:
    """Groups of streams of (milliseconds, text); `page` events an answer."""

    def __init__(self, groups, *, page=100):
        self.groups = {
            group: {name: sorted(events) for name, events in streams.items()}
            for group, streams in groups.items()
        }
        self.page = page
        self.asked = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            wbufsize = -1
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                name = self.headers["X-Amz-Target"].rpartition(".")[2]
                outer.asked.append((name, body))
                try:
                    status, answer = 200, getattr(outer, name)(body)
                except KeyError:
                    status, answer = 400, {"__type": "ResourceNotFoundException", "message": "no"}
                text = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/x-amz-json-1.1")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def DescribeLogStreams(self, body):
        names = sorted(
            name
            for name in self.groups[body["logGroupName"]]
            if name.startswith(body.get("logStreamNamePrefix", ""))
        )
        at = int(body.get("nextToken", 0))
        found = names[at : at + 50]
        more = {"nextToken": str(at + 50)} if at + 50 < len(names) else {}
        return {"logStreams": [{"logStreamName": name} for name in found], **more}

    def GetLogEvents(self, body):
        events = self.groups[body["logGroupName"]][body["logStreamName"]]
        inside = [e for e in events if body["startTime"] <= e[0] < body["endTime"]]
        at = int(body.get("nextToken", "f/0").partition("/")[2])
        found = inside[at : at + self.page]
        return {
            "events": [
                {"timestamp": ms, "message": text, "ingestionTime": ms} for ms, text in found
            ],
            "nextForwardToken": f"f/{at + len(found)}",
            "nextBackwardToken": "b/0",
        }

    def FilterLogEvents(self, body):
        pattern = body["filterPattern"]
        assert len(pattern) <= 1024
        expression = re2.compile(_PATTERN.match(pattern)[1])
        (name,) = body["logStreamNames"]
        events = self.groups[body["logGroupName"]][name]
        at = int(body.get("nextToken", 0))
        looked = list(enumerate(events))[at : at + self.page]
        found = [
            {"timestamp": ms, "message": text, "logStreamName": name, "eventId": f"{number:020d}"}
            for number, (ms, text) in looked
            if body["startTime"] <= ms <= body["endTime"] and expression.search(text)
        ]
        more = {"nextToken": str(at + self.page)} if at + self.page < len(events) else {}
        return {"events": found, **more}

    def client(self, url=None):
        """Return AWS's client for this server, or for a proxy before it."""
        return boto3.client(
            "logs",
            region_name="eu-west-1",
            endpoint_url=url or self.url,
            aws_access_key_id="x",
            aws_secret_access_key="x",
            config=Config(retries={"mode": "standard", "max_attempts": 5}, read_timeout=10),
        )

    def stop(self) -> None:
        """End the server."""
        self.server.shutdown()
        self.server.server_close()
