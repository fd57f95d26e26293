"""A FastAPI application with a rate limit middleware (ASGI)."""
# [snippet middleware]
import logging
import math
import os

import httpx
from fastapi import FastAPI
from starlette.responses import JSONResponse

TIMEOUT = float(os.environ.get("RATE_LIMIT_TIMEOUT_MS", 200)) / 1000  # seconds


class RateLimit:
    def __init__(self, app, policy: str):
        self.app, self.policy = app, policy
        self.headgate = httpx.AsyncClient(  # a pool with keep-alive; does not retry
            base_url=os.environ.get("RATE_LIMIT_HTTP", "http://127.0.0.1:8080"),
            timeout=TIMEOUT,
        )

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http":
            decision = await self.check(scope["client"][0])
            if decision is not None and not decision["allowed"]:
                retry = math.ceil(decision["retry_after_ms"] / 1000)
                denied = JSONResponse({"detail": "too many requests"}, 429, {"Retry-After": str(retry)})
                return await denied(scope, receive, send)
        await self.app(scope, receive, send)  # also if not decided: fail open

    async def check(self, key: str) -> dict | None:
        try:
            response = await self.headgate.post("/v1/check", json={"policy": self.policy, "key": key})
            if response.status_code in (200, 429):
                return response.json()
            logging.warning("headgate: %s", response.text)
        except httpx.HTTPError as e:
            logging.warning("headgate: %s", e)
        return None


app = FastAPI()
app.add_middleware(RateLimit, policy="api")
# [end middleware]


@app.get("/orders")
async def orders():
    return "orders"
