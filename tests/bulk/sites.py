"""A server of distfiles."""

import http.server
import threading


class Server(http.server.ThreadingHTTPServer):
    """Serves any file and counts requests. `gates` has callbacks that run in the middle of a file."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.gates = [], {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def site(self):
        return f"http://127.0.0.1:{self.server_address[1]}/"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        name = self.path.rsplit("/", 1)[-1]
        content = f"{name}\n".encode() * 1000
        self.server.asked.append(self.path.removeprefix("/"))
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        try:
            self.wfile.write(content[: len(content) // 2])
            self.wfile.flush()
            if self.server.gates.get(name, lambda: True)():
                self.wfile.write(content[len(content) // 2 :])
        except BrokenPipeError:
            pass

    def log_message(self, *_):
        pass
