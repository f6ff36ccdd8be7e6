"""A registry for npm on the loopback, of built files alone: what npm asks a registry, and no more."""

import base64
import hashlib
import json
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


def serve(files):
    """Serves packed packages; returns the URL."""
    content = {path.name: path.read_bytes() for path in files}
    packuments = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            name = unquote(self.path).lstrip("/")
            body = content.get(name) or json.dumps(packuments.get(name, {"error": "not found"})).encode()
            self.send_response(200 if name in content or name in packuments else 404)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_port}"
    for path in files:
        with tarfile.open(path) as packed:
            manifest = json.load(packed.extractfile("package/package.json"))
        integrity = "sha512-" + base64.b64encode(hashlib.sha512(content[path.name]).digest()).decode()
        manifest["dist"] = {"tarball": f"{url}/{path.name}", "integrity": integrity}
        name, version = manifest["name"], manifest["version"]
        packuments[name] = {"name": name, "dist-tags": {"latest": version}, "versions": {version: manifest}}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return url
