"""An application to try the proxies with: it responds with what it received."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Application(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        lines = [f"{self.command} {self.path}"]
        for name in ("Host", "X-Forwarded-For", "X-Forwarded-Proto"):
            lines.append(f"{name}: {self.headers[name]}")
        body = ("\n".join(lines) + "\n").encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", 9000), Application).serve_forever()
