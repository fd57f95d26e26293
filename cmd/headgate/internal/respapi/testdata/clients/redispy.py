# What a program with redis-py does. Arguments: where the server is, a user and a password (or none). It prints a line for each step.
import json
import sys

import redis

address, user, password = (sys.argv[1:] + ["", ""])[:3]
where = {"unix_socket_path": address} if address[0] == "/" else {"port": int(address)}
if password:
    where.update(username=user or None, password=password)
r = redis.Redis(decode_responses=True, db=0, client_name="test", health_check_interval=60, **where)


def step(name, value):
    print(name, json.dumps(value, separators=(",", ":")))


step("ping", r.ping())
step("throttle", r.execute_command("CL.THROTTLE", "k", 15, 30, 60))
step("denied", r.execute_command("CL.THROTTLE", "k", 15, 30, 60, 20))
try:
    r.execute_command("CL.THROTTLE", "k", 15, 0, 60)
except redis.ResponseError as e:
    step("error", str(e))
step("check", r.execute_command("HG.CHECK", "api", "k"))
for name, transaction in ("pipeline", False), ("transaction", True):
    p = r.pipeline(transaction)
    p.execute_command("CL.THROTTLE", "k", 15, 30, 60)
    p.execute_command("THROTTLE", "k", 10, 10, 10)
    step(name, p.execute())
step("info", r.info()["redis_mode"])
step("name", ["OK", r.client_getname()])
if r.command()["cl.throttle"]["first_key_pos"] != 1:
    step("command", r.command()["cl.throttle"])
r.execute_command("QUIT")  # the server ends the connection, which the next request may find out
try:
    r.ping()
except redis.ConnectionError:
    pass
step("again", r.execute_command("CL.THROTTLE", "k", 15, 30, 60))
