"""Logs in the account ada from an address, once with each password of the command line.

Only failures are charged.
"""
import hashlib
import hmac
import ipaddress
import logging
import math
import os
import sys

import requests

TIMEOUT = float(os.environ.get("RATE_LIMIT_TIMEOUT_MS", 200)) / 1000  # seconds
URL = os.environ.get("RATE_LIMIT_HTTP", "http://127.0.0.1:8080")
SECRET = os.environ.get("LOGIN_SECRET", "set a random secret of 16 bytes").encode()
session = requests.Session()  # keeps connections open


# [snippet keys]
def hashed(*parts: str) -> str:
    """Hash the parts of a key, so that the service and its store have no personal data."""
    return hmac.new(SECRET, "\n".join(parts).encode(), hashlib.sha256).hexdigest()


def network(address: str) -> str:
    """Return the address, or the first 64 bits of an IPv6 address, in hexadecimal."""
    ip = ipaddress.ip_address(address)
    if ip.version == 6 and ip.ipv4_mapped:
        ip = ip.ipv4_mapped
    return ip.packed[:8].hex()
# [end keys]


# [snippet checks]
def checks(account: str, address: str, known: bool) -> list:
    """Return the checks of a login. known: the browser has a signed cookie of an earlier one."""
    net = network(address)
    pair = {"policy": "login_pair", "key": hashed(net, account)}
    if known:
        return [pair]
    return [
        pair,
        {"policy": "login_address", "key": hashed(net)},
        {"policy": "login_account", "key": hashed(account)},
    ]


def headgate(operation: str, request: dict) -> dict | None:
    """Call an operation. Return the decision, or None if Headgate could not decide."""
    try:
        response = session.post(f"{URL}/v1/{operation}", json=request, timeout=(TIMEOUT, TIMEOUT))
        if response.status_code in (200, 429):
            return response.json()
        logging.warning("headgate: %s", response.text)
    except requests.RequestException as e:
        logging.warning("headgate: %s", e)
    return None
# [end checks]


# [snippet login]
def login(account: str, address: str, password: str, known: bool) -> str:
    """Return a text for the user. The password is compared only if the limits allow it."""
    items = checks(account, address, known)
    decision = headgate("hold", {"checks": items, "ttl": "60s"})
    if decision is None:
        return "not decided: denied"  # fail closed, with status 503
    if not decision["allowed"]:  # status 429
        logging.warning("login denied by %s", ", ".join(decision["denied_by"]))  # not for the client
        retry = math.ceil(decision["retry_after_ms"] / 1000)
        return f"too many attempts, Retry-After: {retry}"
    if not password_is_right(account, password):
        return "wrong password"  # the hold expires, and the charge stays
    headgate("cancel", {"hold": decision["hold"]})
    return "logged in"
# [end login]


def password_is_right(account: str, password: str) -> bool:
    """A placeholder. A real one takes as long for an account that does not exist."""
    return account == "ada" and hmac.compare_digest(password, "right")


if __name__ == "__main__":
    for guess in sys.argv[1:]:
        print(login("ada", os.environ.get("LOGIN_ADDRESS", "203.0.113.9"), guess, os.environ.get("LOGIN_KNOWN") == "1"))
