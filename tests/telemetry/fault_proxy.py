"""A proxy on loopback that spoils answers in a fixed rhythm: the same faults in every run."""

import http.client
import itertools
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

SKEWED = {
    "behind": "Thu, 01 Jan 1970 00:00:00 GMT",
    "ahead": "Thu, 01 Jan 2099 00:00:00 GMT",
}
KEPT = ("Content-Type", "ETag", "Last-Modified", "Content-Range")


class FaultProxy:
    """Forwards to `target`; the n-th request meets the n-th fault of `rhythm`, over and over.

    Faults: `ok`, `slow` (50 ms), `reset` (no answer), `half` (half a body), `busy` (429), `error`
    (500), `behind` and `ahead` (429 of a server whose clock is years off).
    """

    def __init__(self, target: str, rhythm):
        self.met: Counter[str] = Counter()
        faults = itertools.cycle(rhythm)
        lock = threading.Lock()
        address = urlsplit(target).netloc
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            wbufsize = -1

            def do_GET(self) -> None:
                given = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                with lock:
                    fault = next(faults)
                    proxy.met[fault] += 1
                if fault == "reset":
                    self.close_connection = True
                    return
                if fault in ("busy", "error", *SKEWED):
                    self.send_response(500 if fault == "error" else 429)
                    self.send_header("Retry-After", SKEWED.get(fault, "0"))
                    self.send_header("Content-Length", "4")
                    self.end_headers()
                    self.wfile.write(b"wait")
                    return
                if fault == "slow":
                    time.sleep(0.05)
                upstream = http.client.HTTPConnection(address, timeout=10)
                sent = dict(self.headers.items())
                upstream.request(self.command, self.path, given or None, sent)
                answer = upstream.getresponse()
                body = answer.read()
                upstream.close()
                self.send_response(answer.status)
                for name in KEPT:
                    if answer.getheader(name):
                        self.send_header(name, answer.getheader(name))
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if fault == "half":
                    body = body[: len(body) // 2]
                    self.close_connection = True
                self.wfile.write(body)

            do_POST = do_GET

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()

    def stop(self) -> None:
        """End the proxy."""
        self.server.shutdown()
        self.server.server_close()
