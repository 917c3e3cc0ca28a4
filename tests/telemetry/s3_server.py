"""A bucket on loopback for AWS's own client: listing in pages, byte ranges, ETags, in a stream.

An object is bytes, or a size with a function that makes any part of it: no disk holds it.
"""

import hashlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

_RANGE = re.compile(r"^bytes=(\d+)-(\d*)$")
_PIECE = 1 << 20
MODIFIED = "Thu, 01 Jan 2026 05:59:00 GMT"


class Made:
    """An object of `size` bytes; `part(start, length)` gives any of them."""

    def __init__(self, size, part):
        self.size = size
        self.part = part
        self.etag = f'"made-{size}"'


class Held(Made):
    """An object whose bytes are held."""

    def __init__(self, body):
        super().__init__(len(body), lambda start, length: body[start : start + length])
        self.etag = f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'


class S3Server:
    """One bucket, whatever its name; `page` keys a listing."""

    def __init__(self, objects, *, page=1_000):
        self.objects = {
            key: value if isinstance(value, Made) else Held(value) for key, value in objects.items()
        }
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1

            def do_GET(self) -> None:
                split = urlsplit(self.path)
                query = {name: each[-1] for name, each in parse_qs(split.query).items()}
                key = unquote(split.path.lstrip("/").partition("/")[2])
                if "list-type" in query:
                    self._answer(200, outer.listing(query, page).encode())
                elif key not in outer.objects:
                    self._answer(404, b"<Error><Code>NoSuchKey</Code></Error>")
                else:
                    self._object(outer.objects[key])

            def _object(self, made) -> None:
                if self.headers.get("If-Match", made.etag) != made.etag:
                    self._answer(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                    return
                match = _RANGE.match(self.headers.get("Range", "bytes=0-"))
                start = int(match[1])
                end = min(int(match[2] or made.size - 1), made.size - 1)
                self.send_response(206)
                self.send_header("ETag", made.etag)
                self.send_header("Last-Modified", MODIFIED)
                self.send_header("Content-Range", f"bytes {start}-{end}/{made.size}")
                self.send_header("Content-Length", str(end - start + 1))
                self.end_headers()
                while start <= end:
                    length = min(_PIECE, end - start + 1)
                    self.wfile.write(made.part(start, length))
                    start += length

            def _answer(self, status, body) -> None:
                self.send_response(status)
                self.send_header("Content-Type", "application/xml")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def listing(self, query, page):
        """Return a page of keys."""
        keys = sorted(key for key in self.objects if key.startswith(query.get("prefix", "")))
        after = query.get("continuation-token", "")
        left = [key for key in keys if key > after]
        shown = left[:page]
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{self.objects[key].size}</Size>"
            f"<ETag>{escape(self.objects[key].etag)}</ETag>"
            "<LastModified>2026-01-01T05:59:00.000Z</LastModified></Contents>"
            for key in shown
        )
        more = len(left) > page
        token = (
            f"<NextContinuationToken>{escape(shown[-1])}</NextContinuationToken>" if more else ""
        )
        return (
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>{token}{entries}"
            "</ListBucketResult>"
        )

    def stop(self) -> None:
        """End the server."""
        self.server.shutdown()
        self.server.server_close()
