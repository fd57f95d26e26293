"""A Flask application with a rate limit middleware (WSGI)."""
# [snippet middleware]
import math

from flask import Flask

from check_resp import check


class RateLimit:
    def __init__(self, app, policy: str):
        self.app, self.policy = app, policy

    def __call__(self, environ, start_response):
        decision = check(self.policy, environ["REMOTE_ADDR"])
        if decision is None or decision["allowed"]:  # None: fail open
            return self.app(environ, start_response)
        retry = math.ceil(decision["retry_after_ms"] / 1000)
        start_response("429 Too Many Requests", [
            ("Content-Type", "text/plain"),
            ("Retry-After", str(retry)),
        ])
        return [b"too many requests\n"]


app = Flask(__name__)
app.wsgi_app = RateLimit(app.wsgi_app, "api")
# [end middleware]


@app.get("/orders")
def orders():
    return "orders"
