# SPDX-License-Identifier: Apache-2.0
"""A web server that answers as it is told: slowly, wrongly, not at all."""
import collections
import http.server
import re
import socket
import threading
import time


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def log_message(self, *_):
        pass

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.server.lock:
            self.server.connections += 1

    def do_GET(self):
        s = self.server
        path = self.path.split("?")[0]
        with s.lock:
            s.asked.append((self.path, self.headers.get("Range")))
            s.seen[self.path, self.headers.get("Range")] += 1
            s.inside += 1
            s.most_inside = max(s.most_inside, s.inside)
        try:
            self.close_connection = False
            if not s.fault(self, path):
                self.serve(path)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        finally:
            with s.lock:
                s.inside -= 1

    def times(self):
        """How often exactly this has been asked for, this time included."""
        return self.server.seen[self.path, self.headers.get("Range")]

    def opening(self):
        return self.headers.get("Range") == "bytes=0-0"

    # ---- answers ----

    def serve(self, path, etag=None, cut=None, shift=0, ranges=True,
              total=None, date=None):
        data = self.server.files.get(path)
        if data is None:
            return self.refuse(404)
        etag = etag or '"%08x"' % hash(data) if etag != "" else None
        found = re.match(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        first, last = 0, len(data) - 1
        if found and ranges:
            first, last = int(found[1]), min(int(found[2]), last)
            if first > last:
                return self.refuse(416, {
                    "Content-Range": f"bytes */{len(data)}"})
            self.send_response(206)
            total = total or len(data)
            self.send_header("Content-Range", f"bytes {first + shift}-"
                                              f"{last + shift}/{total}")
        else:
            self.send_response(200)
        body = data[first:last + 1]
        if etag:
            self.send_header("ETag", etag)
        if date:
            self.send_header("Last-Modified", date)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if cut is not None and cut < len(body):
            self.wfile.write(body[:cut])
            self.hang_up()
        else:
            self.wfile.write(body)

    def refuse(self, status, headers=(), body=b"", phrase=None):
        self.send_response(status, phrase)
        for k, v in dict(headers).items():
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def hang_up(self):
        self.wfile.flush()
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def sleep(self, seconds):
        """At most until the server is closed."""
        self.server.closing.wait(seconds)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self, files, fault=lambda handler, path: False):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.fault = files, fault
        self.lock = threading.Lock()
        self.closing = threading.Event()
        self.asked, self.seen = [], collections.Counter()
        self.connections = self.inside = self.most_inside = 0
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.thread = threading.Thread(target=self.serve_forever,
                                       args=(0.02,), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, *_):
        pass  # whoever is cut off comes back with another request


def free_port(n=1):
    """The first of n ports in a row that nobody uses."""
    for port in range(20000 + int(time.time() * 1000) % 20000, 60000, n):
        held = []
        try:
            for p in range(port, port + n):
                held.append(socket.create_server(("127.0.0.1", p)))
            return port
        except OSError:
            continue
        finally:
            for s in held:
                s.close()
    raise OSError("no free port")
