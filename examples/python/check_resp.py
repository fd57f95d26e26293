"""A rate limit check with redis-py, over the Redis-compatible endpoint."""
import logging
import math
import os

import redis

TIMEOUT = float(os.environ.get("RATE_LIMIT_TIMEOUT_MS", 200)) / 1000  # seconds

# [snippet connect]
# The client has a pool: threads share it, and connections are reused.
headgate = redis.Redis.from_url(
    "redis://" + os.environ.get("RATE_LIMIT_RESP", "127.0.0.1:6380"),
    socket_connect_timeout=TIMEOUT,
    socket_timeout=TIMEOUT,
    decode_responses=True,
)
# [end connect]


# [snippet check]
def check(policy: str, key: str, cost: int = 1) -> dict | None:
    """Return the fields of the reply, or None if Headgate could not decide."""
    try:
        # A RESP2 reply is a flat list: name, value, name, value, …
        reply = headgate.execute_command("HG.CHECK", policy, key, cost)
    except redis.RedisError as e:
        logging.warning("headgate: %s", e)
        return None
    return dict(zip(reply[::2], reply[1::2]))
# [end check]


if __name__ == "__main__":
    for _ in range(4):
        decision = check("api", "redis-py:user:42")
        if decision is None:
            print("not decided: allowed")  # fail open; for a login deny here (fail closed)
        elif decision["allowed"]:
            print(f"allowed, {decision['remaining']} left")
        else:
            print(f"denied, Retry-After: {math.ceil(decision['retry_after_ms'] / 1000)}")
