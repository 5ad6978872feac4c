"""A relay between clients and the server of a build: counts bytes, delays them, and disturbs connections."""

import contextlib
import queue
import socket
import threading
import time


class Relay:
    """Forwards connections to a port of this machine, unless it is told to disturb them. `delay`: seconds that bytes take
    in each direction."""

    def __init__(self, port, delay=0):
        self.target, self.delay, self.state, self.rate = port, delay, "open", None
        # Bytes from clients and to them.
        self.sent = self.received = 0
        self.pairs = set()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                if self.state == "closed":
                    client.close()
                    continue
                # Small buffers, so that `sent` is near to the bytes that arrive.
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
                server = socket.create_connection(("127.0.0.1", self.target))
                for end in (client, server):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.pairs.add((client, server))
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self.copy, args=(source, sink, source is client), daemon=True).start()

    def copy(self, source, sink, is_upload):
        put, end = self.later(sink) if self.delay else (sink.sendall, lambda: close(sink))
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 12):
                # A partition: bytes are neither delivered nor refused.
                while self.state == "silent":
                    time.sleep(0.02)
                if is_upload:
                    self.sent += len(data)
                    time.sleep(len(data) / self.rate if self.rate else 0)
                else:
                    self.received += len(data)
                put(data)
        close(source)
        end()

    def later(self, sink):
        """Returns functions that send bytes, and close the connection, after the delay."""
        due = queue.SimpleQueue()

        def deliver():
            with contextlib.suppress(OSError):
                while True:
                    at, data = due.get()
                    time.sleep(max(0, at - time.monotonic()))
                    if not data:
                        break
                    sink.sendall(data)
            close(sink)

        threading.Thread(target=deliver, daemon=True).start()

        def put(data):
            due.put((time.monotonic() + self.delay, data))

        return put, lambda: put(b"")

    def reset(self):
        """Breaks all connections."""
        for pair in list(self.pairs):
            self.pairs.discard(pair)
            for end in pair:
                close(end)


def close(end):
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
