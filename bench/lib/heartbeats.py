"""Clients that only send heartbeats, all of them in this process."""

import asyncio
import json
import math
import random
import secrets
import ssl
import time
import urllib.parse

from lib import farms

HEARTBEATS = "heartbeats"
CLIENTS = 1000
# Clients that join at a time.
AT_ONCE = 16
# Intervals between heartbeats that are measured.
INTERVALS = 3
CPU, MEMORY, LATENCY = "% of a core", "bytes", "p99 ms"


class Beater:
    """A client with one connection."""

    def __init__(self, join, tls, latencies):
        self.join, self.tls, self.latencies = join, tls, latencies
        self.url, self.token = urllib.parse.urlsplit(join["url"]), join["secret"]

    async def post(self, path, message):
        body = json.dumps(message)
        self.writer.write(
            f"POST /v1/{self.join['build']}/{path} HTTP/1.1\r\nHost: {self.url.netloc}\r\nAuthorization: Bearer {self.token}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        answer = await self.reader.readexactly(int(headers["content-length"]))
        if " 200 " not in head[0]:
            raise SystemExit(f"{path}: {head[0]}: {answer.decode()}")
        return json.loads(answer)

    async def begin(self, limit):
        """Joins and says hello. Returns the seconds between heartbeats."""
        async with limit:
            self.reader, self.writer = await asyncio.open_connection(self.url.hostname, self.url.port, ssl=self.tls)
            joined = await self.post("join", {"key": secrets.token_hex(32)})
            self.token = joined["token"]
            build = await self.post("describe", {})
            hello = await self.post("hello", {
                "version": "0", "name": joined["name"], "instance": secrets.token_hex(16), "slots": 1, "cpus": 1,
                "memory_kib": 1 << 24, "disk_kib": 1 << 24, "environment": build["environment"],
            })  # fmt: skip
        self.connection = hello["connection"]
        return hello["heartbeat_ms"] / 1e3

    async def beat(self, interval, end):
        """Sends heartbeats until the end, the first one at a random moment of the first interval."""
        await asyncio.sleep(random.uniform(0, interval))
        number = 0
        while (begun := time.monotonic()) < end:
            number += 1
            await self.post("heartbeat", {
                "connection": self.connection, "number": number, "memory_kib": 1 << 24, "disk_kib": 1 << 24, "leases": [],
            })  # fmt: skip
            now = time.monotonic()
            self.latencies.append((begun, now - begun))
            await asyncio.sleep(max(0, begun + interval - now))


async def measure(join, pids, clients):
    """Returns CPU time relative to the time, resident bytes, and the latencies in seconds."""
    tls, latencies = ssl.create_default_context(cadata=join["authority"]), []
    beaters = [Beater(join, tls, latencies) for _ in range(clients)]
    limit = asyncio.Semaphore(AT_ONCE)
    interval = max(await asyncio.gather(*(it.begin(limit) for it in beaters)))
    # In the first interval, heartbeats get going.
    begun = time.monotonic() + interval
    end = begun + INTERVALS * interval
    beats = asyncio.gather(*(it.beat(interval, end) for it in beaters))
    await asyncio.sleep(begun - time.monotonic())
    before = sum(map(farms.cpu, pids))
    await asyncio.sleep(end - time.monotonic())
    used, resident = sum(map(farms.cpu, pids)) - before, sum(map(farms.memory, pids))
    await beats
    return used / (end - begun), resident, sorted(took for at, took in latencies if at >= begun)


def heartbeats(tanto, _):
    """The build waits for clients with a label that none has."""
    with farms.farm(tanto, HEARTBEATS, farms.Empty, range(1)) as farm:
        farm.farm.token("pool", "--pool", "--max-clients", str(CLIENTS))
        join = json.loads((farm.farm.directory / "pool.join").read_text())["body"]
        coordinator = farm.begin()
        share, resident, took = asyncio.run(measure(join, (coordinator.pid, farm.server.pid), CLIENTS))
    p99 = took[math.ceil(len(took) * 0.99) - 1] * 1e3
    print(
        f"{HEARTBEATS}: {CLIENTS:,} clients, {len(took):,} heartbeats: {share * 100:.1f} % of a core, {resident / 1e6:.0f} MB, "
        f"latency {took[len(took) // 2] * 1e3:.1f} ms (median), {p99:.1f} ms (p99)",
        flush=True,
    )
    return {(HEARTBEATS, CPU): share * 100, (HEARTBEATS, MEMORY): resident, (HEARTBEATS, LATENCY): p99}
