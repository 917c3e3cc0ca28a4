"""The address that Slurm's jobcomp/elasticsearch plugin posts to.

Slurm posts a job again until it gets a 200: it gets one when the record is on disk, not before.
"""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from socketserver import ThreadingMixIn
from typing import Any

from rootrank_slurm.deliver import say
from rootrank_slurm.records import POSTED, job_of, taken
from rootrank_slurm.spool import Spool

_MAX_BYTES = 8 * 1024 * 1024
"""A record holds the whole job script."""


class Server(ThreadingMixIn, HTTPServer):
    """One thread a request; `spool` keeps what comes."""

    daemon_threads = True
    spool: Spool


class Receiver(BaseHTTPRequestHandler):
    """Takes a job record and says where it is."""

    protocol_version = "HTTP/1.1"
    timeout = 30
    server: Any

    def do_POST(self) -> None:
        """Spool one record."""
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > _MAX_BYTES:
            self.close_connection = True
            self._reply(413, "a job record of at most %d bytes is wanted" % _MAX_BYTES)
            return
        try:
            record = json.loads(self.rfile.read(int(length)).decode("utf-8", "replace"))
        except ValueError as error:
            self._reply(400, "no JSON: %s" % error)
            return
        if not isinstance(record, dict) or not job_of(record):
            self._reply(400, "no job record: jobid is missing")
            return
        try:
            self.server.spool.add("jobcomp", taken(record, POSTED))
        except OSError as error:
            self._reply(503, "cannot be stored: %s" % error)
            return
        self._reply(200, "stored")

    def do_GET(self) -> None:
        """Say how many events wait."""
        self._reply(200, "%d events wait" % len(self.server.spool.names()))

    def _reply(self, status: int, text: str) -> None:
        body = json.dumps({"result": text}).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        if status != 200:
            say("a post is refused: %s" % text)

    def log_message(self, *_: Any) -> None:
        """Say nothing about what went well."""


def make_server(listen: str, spool: Spool) -> Server:
    """Return a server that listens; raises `OSError` where the address is taken."""
    host, _, port = listen.rpartition(":")
    server = Server((host or "127.0.0.1", int(port)), Receiver)
    server.spool = spool
    return server
