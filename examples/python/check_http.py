"""A rate limit check with requests, over the HTTP API."""
import logging
import os

import requests
from requests.adapters import HTTPAdapter

TIMEOUT = float(os.environ.get("RATE_LIMIT_TIMEOUT_MS", 200)) / 1000  # seconds
URL = os.environ.get("RATE_LIMIT_HTTP", "http://127.0.0.1:8080")

# [snippet connect]
headgate = requests.Session()  # keeps connections open
# max_retries=0 is the default. A urllib3 Retry whose allowed_methods contain POST waits
# for Retry-After and checks a denied client again.
headgate.mount(URL, HTTPAdapter(pool_maxsize=32, max_retries=0))
# [end connect]


# [snippet check]
def check(request: dict) -> dict | None:
    """Return the decision, or None if Headgate could not decide."""
    try:
        response = headgate.post(URL + "/v1/check", json=request, timeout=(TIMEOUT, TIMEOUT))
        if response.status_code in (200, 429):  # so do not call raise_for_status
            return response.json()
        logging.warning("headgate: %s", response.text)  # wrong request, or no decision
    except requests.RequestException as e:
        logging.warning("headgate: %s", e)
    return None
# [end check]


if __name__ == "__main__":
    for _ in range(3):
        # [snippet login]
        decision = check({"checks": [
            {"policy": "login_ip", "key": "requests:203.0.113.9"},
            {"policy": "login_account", "key": "requests:ada"},
        ]})
        # [end login]
        if decision is None:
            print("not decided: denied")  # a login fails closed
        elif decision["allowed"]:
            print(f"allowed, {decision['remaining']} left")
        else:
            print("denied by", ", ".join(decision["denied_by"]))
