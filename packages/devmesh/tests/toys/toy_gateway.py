"""An HTTP process that is ready at once."""

import os
from http.server import BaseHTTPRequestHandler, HTTPServer


class Ready(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/readyz" else 404)
        self.end_headers()


host, _, port = os.environ["FEED_HTTP_LISTEN"].rpartition(":")
HTTPServer((host, int(port)), Ready).serve_forever()
