#!/usr/bin/env python3
"""Asks a running `rigcast ui` as many clients at once do, and says what they got.

  scripts/ui-load.py [PROGRAM] [--seconds N] [PART...]
      PART: steady, crowd, slow; default: all. PROGRAM: default build/release/rigcast

steady: 8 connections for N seconds (default 60). crowd: 200 connections at once, five times. slow: 64 that
send half of a request. Ends with 1 if a client got something else than an answer or a 503, or if memory grew
by more than a tenth after the first crowd. Not a part of CI: figures are those of the machine.
"""
import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import time

GPUS = ["rtx-3060-12gb", "rtx-3090", "rtx-4090"]
MODELS = ["llama-3.1-8b", "llama-3.2-1b", "qwen2.5-14b"]
CONTEXTS = [2048, 4096, 8192, 16384, 24576, 32768]
QUANTS = ["Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "Q3_K_M"]


def question(number):
    """One of 270 that people ask, in an order that mixes them."""
    rig = {"gpu": [GPUS[number % 3]]}
    model = {"name": MODELS[number // 3 % 3], "quant": QUANTS[number // 9 % 5]}
    workload = {"context": CONTEXTS[number // 45 % 6]}
    return {"scenario": {"rig": rig, "model": model, "workload": workload}}


class Server:
    def __init__(self, program):
        self.process = subprocess.Popen([program, "ui", "--port", "0"], stdout=subprocess.PIPE, text=True)
        self.port = int(re.search(r":(\d+)/", self.process.stdout.readline()).group(1))

    def request(self, body):
        text = json.dumps(body).encode()
        head = (f"POST /api/forecast HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n")
        return head.encode() + text

    def memory(self):
        """Bytes of the server's own process: resident, and on its heaps alone."""
        with open(f"/proc/{self.process.pid}/smaps_rollup") as rollup:
            return 1024 * int(re.search(r"^Private_Dirty:\s+(\d+)", rollup.read(), re.M).group(1))

    def stop(self):
        self.process.terminate()
        self.process.wait()


async def answer(reader):
    """Status and body of one response."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(re.search(rb"Content-Length: (\d+)", head).group(1))
    return int(head.split()[1]), await reader.readexactly(length)


async def ask_until(server, end, first, got):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    number = first
    while time.monotonic() < end:
        begin = time.monotonic()
        writer.write(server.request(question(number)))
        status, _ = await answer(reader)
        got.append((status, time.monotonic() - begin))
        number += 8
    writer.close()


async def steady(server, seconds):
    got = []
    end = time.monotonic() + seconds
    await asyncio.gather(*(ask_until(server, end, i, got) for i in range(8)))
    times = sorted(took for _, took in got)
    failures = sum(status != 200 for status, _ in got)
    cores = os.cpu_count()
    print(f"steady: 8 connections, {seconds} s: {len(got)} answers, {failures} failures, "
          f"{len(got) / seconds:.0f} a second, {len(got) / seconds / cores:.0f} for each of {cores} cores, "
          f"p50 {1000 * times[len(times) // 2]:.0f} ms, p95 {1000 * times[int(len(times) * 0.95)]:.0f} ms")
    return failures == 0


async def ask_once(server, number):
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(server.request(question(number)))
        status, _ = await asyncio.wait_for(answer(reader), 60)
        writer.close()
        return status
    except (OSError, asyncio.IncompleteReadError, asyncio.TimeoutError) as error:
        return type(error).__name__


async def crowd(server, _):
    sizes = [server.memory()]
    fine = True
    for _ in range(5):
        got = await asyncio.gather(*(ask_once(server, n) for n in range(200)))
        kinds = {kind: got.count(kind) for kind in sorted(set(got), key=str)}
        await asyncio.sleep(1)
        sizes.append(server.memory())
        fine = fine and set(kinds) <= {200, 503} and kinds.get(200, 0) > 0
        print(f"crowd: 200 connections at once: {kinds}, memory {sizes[-1] / 1e6:.2f} MB")
    print(f"crowd: memory before {sizes[0] / 1e6:.2f} MB, after the first {sizes[1] / 1e6:.2f}, "
          f"after the last {sizes[-1] / 1e6:.2f}")
    return fine and sizes[-1] <= 1.1 * sizes[1]


async def slow(server, _):
    half = server.request(question(0))[:60]
    clients = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(64)]
    for _, writer in clients:
        writer.write(half)
    begin = time.monotonic()
    closed = await asyncio.gather(*(asyncio.wait_for(reader.read(), 20) for reader, _ in clients))
    ended = time.monotonic() - begin
    for _, writer in clients:
        writer.close()
    begin = time.monotonic()
    status = await ask_once(server, 1)
    took = time.monotonic() - begin
    print(f"slow: {len(closed)} half requests ended after {ended:.1f} s; the next question got {status} "
          f"in {1000 * took:.0f} ms")
    return status == 200 and ended < 7 and took < 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    parts = {"steady": steady, "crowd": crowd, "slow": slow}
    program = next((word for word in options.words if word not in parts), "build/release/rigcast")
    fine = True
    for name in [word for word in options.words if word in parts] or parts:
        server = Server(program)
        try:
            fine = asyncio.run(parts[name](server, options.seconds)) and fine
        finally:
            server.stop()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
