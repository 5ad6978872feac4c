"""Clients that read files from an HTTP cache.

    cache.py TANTO

nginx is the cache, with the configuration in docs/many-machines.md, and one that sends something else.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from farm import Farm, free_port, until
from place import ROOT, Some, can_create_sandboxes

# The second needs the first.
PACKAGES = ("devel/libone", "devel/libthree")
# All packages are built by clients.
AWAY = '[place]\n"*/*" = "away"\n'
MAIN = """daemon off;
user root;
pid {place}/nginx.pid;
error_log {place}/error.log;
events {{}}
http {{
    log_format requests escape=json '{{"path": "$request_uri", "status": "$status", "cache": "$upstream_cache_status", "agent": "$http_user_agent", "token": "$http_authorization"}}';
    access_log {place}/access.log requests;
    client_body_temp_path {place}/body;
    proxy_temp_path {place}/proxy;
    fastcgi_temp_path {place}/fastcgi;
    uwsgi_temp_path {place}/uwsgi;
    scgi_temp_path {place}/scgi;
{site}
}}
"""
WRONG = """server {{
    listen 127.0.0.1:{port};
    location / {{ return 200 "something else"; }}
}}
"""


class Nginx:
    """A web server that keeps its files in a directory."""

    def __init__(self, place, site):
        place.mkdir()
        self.place = place
        (place / "nginx.conf").write_text(MAIN.format(place=place, site=site))
        (place / "access.log").touch()
        command = [nginx(), "-p", place, "-e", f"{place}/error.log", "-c", f"{place}/nginx.conf"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def __enter__(self):
        until(lambda: (self.place / "nginx.pid").exists() or self.process.poll() is not None, "nginx runs")
        assert self.process.poll() is None, (self.place / "error.log").read_text()
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()

    def requests(self):
        return [json.loads(line) for line in (self.place / "access.log").read_text().splitlines()]


def nginx():
    return shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


def documented(place, port, server_port):
    """The site in the documentation, with the ports and the directories of this test."""
    section = (ROOT / "docs/many-machines.md").read_text().partition("## A cache for many clients\n")[2].partition("\n## ")[0]
    (site,) = re.findall(r"(?ms)^```nginx\n(.*?)^```", section)
    for old, new in (
        ("listen 80", f"listen 127.0.0.1:{port}"),
        ("master.example.org:8443", f"localhost:{server_port}"),
        ("/var/cache/nginx", str(place)),
        ("/etc/nginx", str(place.parent)),
    ):
        assert old in site, old
        site = site.replace(old, new)
    return site


def files_are_fetched_once(tanto, directory):
    """Clients read the kit, the manifest of the tree and packages that they have not built from nginx."""
    port = free_port()
    with Farm(tanto, directory, PACKAGES, f'blobs = "http://127.0.0.1:{port}/cas"\n{AWAY}', Some) as farm:
        farm.serve()
        farm.place.run("token", "add", "cache", "--role", "read", "--plain", "--output", "cache.token")
        token = (directory / "cache.token").read_text().strip()
        (directory / "tanto-token.conf").write_text(f'proxy_set_header Authorization "Bearer {token}";\n')
        shutil.copy(directory / "state/serve/tls/authority.pem", directory)
        with Nginx(directory / "nginx", documented(directory / "nginx", port, farm.port)) as cache:
            for client in ("first", "second"):
                farm.token(client)
            first = farm.client("first", "--slots", "1", "--label", "away")
            farm.wait(farm.build(), 0, "build.log")
            first.terminate()
            first.wait()
            before = cache.requests()
            farm.client("second", "--slots", "1", "--label", "away")
            (directory / "packages/All/libthree-3.1.tgz").unlink()
            farm.wait(farm.start("again.log", "build", "--resolved", "presolve"), 0, "again.log")
            after = cache.requests()
        assert len(farm.place.packages()) == len(farm.place.names()), farm.place.packages()
        paths = [request["path"] for request in before]
        assert len(paths) == len(set(paths)) and len(paths) >= 2, (paths, farm.log("first.log"))
        assert all(request["status"] == "200" for request in after), after
        assert {request["token"] for request in after} == {""}, "a client has sent its token"
        misses = [request["path"] for request in after if request["cache"] == "MISS"]
        assert len(misses) == len(set(misses)), misses
        hits = {request["path"] for request in after[len(before) :] if request["cache"] == "HIT"}
        # The kit and the manifest of the tree.
        assert len(hits & set(paths)) >= 2, after
        # The package that libthree needs.
        assert len(misses) > len(paths), after
        for client in ("first", "second"):
            assert "does not work" not in farm.log(f"{client}.log"), farm.log(f"{client}.log")
    print(f"ok cache: nginx fetches each of {len(misses)} files once, and gets no client's token")


def broken_caches_do_not_disturb(tanto, directory):
    """A cache that sends something else, and then one that is not there."""
    ports = (free_port(), free_port())
    urls = [f"http://127.0.0.1:{port}/cas" for port in ports]
    with Farm(tanto, directory, PACKAGES, f'blobs = "{urls[0]}"\n{AWAY}', Some) as farm:
        farm.serve()
        farm.token("builder")
        client = farm.client("builder", "--slots", "2", "--label", "away")
        with Nginx(directory / "nginx", WRONG.format(port=ports[0])) as cache:
            farm.wait(farm.build(), 0, "build.log")
            requests = cache.requests()
        config = directory / "bulk.toml"
        config.write_text(config.read_text().replace(urls[0], urls[1]))
        # Another tree has another manifest.
        (directory / "tree/devel/libone/note").write_text("new\n")
        farm.wait(farm.start("again.log", "build", "--resolved", "presolve", "--again"), 0, "again.log")
        assert client.poll() is None, farm.log("builder.log")
        assert len(farm.place.packages()) == len(farm.place.names()), farm.place.packages()
        assert len(requests) == 1, requests
        warnings = [line for line in farm.log("builder.log").splitlines() if "does not work" in line]
        assert len(warnings) == 2, farm.log("builder.log")
        assert f"{urls[0]} does not work: it sent something else than the blob" in warnings[0], warnings
        assert f"{urls[1]} does not work: " in warnings[1], warnings
    print("ok cache: clients read from the server if a cache sends something else or is not there, with one warning")


def main():
    tanto = Path(sys.argv[1]).resolve()
    if not nginx() or not can_create_sandboxes(None):
        print(f"cache: skipped: {'this machine permits no sandboxes' if nginx() else 'nginx is not installed'}")
        return
    for test in (files_are_fetched_once, broken_caches_do_not_disturb):
        with tempfile.TemporaryDirectory() as directory:
            test(tanto, Path(directory))


main()
