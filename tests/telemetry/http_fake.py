"""A small HTTP server on loopback whose answers a test gives; requests are kept."""

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

Answer = tuple[int, dict[str, str], bytes]


class FakeServer:
    """Serves `answer(path, params, headers)` until `stop`."""

    def __init__(self, answer: Callable[[str, dict[str, str], dict[str, str]], Answer]):
        self.requests: list[tuple[str, dict[str, str], dict[str, str]]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            wbufsize = -1  # unbuffered answers cost 80 ms each (Nagle)

            def do_GET(self) -> None:
                split = urlsplit(self.path)
                params = {key: each[-1] for key, each in parse_qs(split.query).items()}
                headers = {key.lower(): value for key, value in self.headers.items()}
                fake.requests.append((split.path, params, headers))
                status, more, body = answer(split.path, params, headers)
                self.send_response(status)
                for key, value in more.items():
                    self.send_header(key, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(
            target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        )
        self.thread.start()

    def stop(self) -> None:
        """End the server."""
        self.server.shutdown()
        self.server.server_close()
