"""Starts an application with uvicorn or wsgiref and sends four requests to it."""
import importlib
import socket
import sys
import threading
from wsgiref.simple_server import make_server

import requests
import uvicorn

name = sys.argv[1]
app = importlib.import_module(name).app
if name == "flask_app":
    server = make_server("127.0.0.1", 0, app)
    server.RequestHandlerClass.log_message = lambda *_: None
    port, run = server.server_port, server.serve_forever
else:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    server.install_signal_handlers = lambda: None
    run = lambda: server.run([listener])
threading.Thread(target=run, daemon=True).start()
for _ in range(4):
    response = requests.get(f"http://127.0.0.1:{port}/orders", timeout=30)
    print(response.status_code, response.headers.get("Retry-After", "-"))
