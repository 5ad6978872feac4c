"""Requests to the server of a bulk build, as docs/protocol.md describes them: retries, and blobs that continue."""

import errno
import hashlib
import http.client
import json
import random
import shutil
import ssl
import sys
import threading
import time
import urllib.parse

# Codes of refusals without a body, by status.
CODES = {401: "token", 403: "role", 404: "not-found", 429: "busy", 503: "unavailable", 507: "disk-full"}
TRY_AGAIN = ("busy", "unavailable", "disk-full")


def say(text):
    print(f"client: {text}", file=sys.stderr, flush=True)


def digest_of(path):
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class Refused(Exception):
    def __init__(self, status, headers, body):
        answer = json.loads(body) if body.startswith(b"{") else {}
        self.status, self.headers, self.code = status, headers, answer.get("code") or CODES.get(status, "invalid")
        super().__init__(answer.get("message") or f"status {status}")


class Server:
    """Sends requests. Each thread has a connection of its own."""

    def __init__(self, url, build, authority, token):
        self.url, self.token, self.threads = urllib.parse.urlsplit(url), token, threading.local()
        self.prefix = f"{self.url.path.rstrip('/')}/v1/{build}/"
        self.tls = ssl.create_default_context(cadata=authority or None)
        self.tls.minimum_version = ssl.TLSVersion.TLSv1_3

    def connection(self, timeout):
        if not hasattr(self.threads, "connection"):
            host, port = self.url.hostname, self.url.port
            if self.url.scheme == "https":
                self.threads.connection = http.client.HTTPSConnection(host, port, context=self.tls)
            else:
                self.threads.connection = http.client.HTTPConnection(host, port)
        connection = self.threads.connection
        connection.timeout = timeout
        if connection.sock:
            connection.sock.settimeout(timeout)
        return connection

    def once(self, method, path, body=None, headers=None, sink=None, timeout=60):
        """Returns the body of an answer, or writes it to `sink`."""
        connection = self.connection(timeout)
        try:
            headers = {"Authorization": f"Bearer {self.token}", **(headers or {})}
            connection.request(method, self.prefix + path, body, headers)
            answer = connection.getresponse()
            if answer.status >= 300:
                raise Refused(answer.status, answer.headers, answer.read())
            if sink is None:
                return answer.read()
            if answer.status != 206:
                sink.truncate(0)
            shutil.copyfileobj(answer, sink)
            if answer.length:
                raise ConnectionError("the answer is incomplete")
        except Refused:
            raise
        except BaseException:
            # The rest of an answer is not that of the next request.
            connection.close()
            raise

    def retry(self, once):
        """Repeats a request until it is answered, or refused for good."""
        delay = 0.5
        while True:
            try:
                return once()
            except Refused as refused:
                if refused.code not in TRY_AGAIN:
                    raise
                why = refused
            except (OSError, http.client.HTTPException) as error:
                full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
                if full or isinstance(error, ssl.SSLCertVerificationError):
                    raise
                why = error
            if delay == 4:
                say(f"trying again: {why}")
            time.sleep(delay * random.uniform(0.5, 1))
            delay = min(delay * 2, 10)

    def post(self, path, message, timeout=60):
        return json.loads(self.retry(lambda: self.once("POST", path, json.dumps(message), timeout=timeout)))

    def download(self, digest, path, mode=0o444):
        """Downloads a blob. Bytes that have arrived before are kept."""
        part = path.with_name(f".{path.name}.part")

        def once():
            with part.open("ab") as sink:
                at = sink.tell()
                try:
                    self.once("GET", f"cas/{digest}", headers={"Range": f"bytes={at}-"} if at else {}, sink=sink)
                except Refused as refused:
                    # All bytes are there, or more than that.
                    if refused.status != 416:
                        raise
            if digest_of(part) != digest:
                part.unlink()
                raise ConnectionError(f"blob {digest} has arrived with another digest")

        path.parent.mkdir(parents=True, exist_ok=True)
        self.retry(once)
        part.chmod(mode)
        part.rename(path)

    def upload(self, path, digest, count=lambda length: None):
        """Uploads a blob. Bytes that have arrived before are not sent again."""
        size = path.stat().st_size

        def once():
            try:
                return self.once("HEAD", f"cas/{digest}?size={size}")
            except Refused as refused:
                if refused.status != 404:
                    raise
                at = int(refused.headers["Upload-Offset"])
            with path.open("rb") as file:
                file.seek(at)
                body = (count(len(chunk)) or chunk for chunk in iter(lambda: file.read(1 << 16), b""))
                headers = {"Content-Length": str(size - at)}
                try:
                    return self.once("PATCH", f"cas/{digest}?at={at}&size={size}", body, headers)
                except Refused as refused:
                    raise ConnectionError("the offset is another") if refused.status == 409 else refused from None

        self.retry(once)
