# Reads a webhook as JSON from the standard input: {"headers": {…}, "body": "…"}. The exit
# status is 0 if it is signed with the secret in WEBHOOK_SECRET.
import json
import os
import sys

# [snippet verify]
import base64
import hashlib
import hmac
import time


def verify(secret, headers, body, now=None):
    """Raise ValueError unless the webhook is signed with the secret and is recent."""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    timestamp = headers["webhook-timestamp"]
    if abs((now or time.time()) - int(timestamp)) > 300:
        raise ValueError("the webhook is too old")
    signed = f"{headers['webhook-id']}.{timestamp}.".encode() + body
    want = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    if not any(hmac.compare_digest(want, got) for got in headers["webhook-signature"].split()):
        raise ValueError("the signature is wrong")
# [end verify]


webhook = json.load(sys.stdin)
try:
    verify(os.environ["WEBHOOK_SECRET"], webhook["headers"], webhook["body"].encode())
except ValueError as e:
    sys.exit(str(e))
