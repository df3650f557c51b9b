#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real clients of NSQ, unmodified and pinned, against giusto-broker: client x command x {plain, TLS, AUTH, compression asked for}.

    matrix.py BROKER PROGRAMS PYTHON NODE [LIMIT]       the broker's program, the directory of NSQ's programs and gonsq,
                                                        interpreters, and where topics are limited: delivery (the default),
                                                        or publishing

What a client says of itself is checked beside the broker's statistics. Prints the matrix; every cell that is not '-' (the client
does not have the command) ran. Exit: 0 all held, 1 not.
"""

import concurrent.futures
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
MODES = ["plain", "TLS", "AUTH", "compression"]
COMMANDS = ["PUB", "MPUB", "DPUB", "SUB/RDY", "FIN", "REQ", "TOUCH"]
broker_program, programs, python, node = sys.argv[1:5]
limit = "".join(f", limit: {where}" for where in sys.argv[5:6])
children = []


def run(*command, **options):
    # A child dies with us, however we end.
    import ctypes

    def bound():
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)

    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=bound, **options)
    children.append(child)
    return child


def free():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def get(address, path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
        return json.load(answer)


def until(what, check, limit=15):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        try:
            value = check()
            if value:
                return value
        except (OSError, ValueError, KeyError):
            pass
        time.sleep(0.05)
    raise SystemExit(f"messaging: {what}: not within {limit} s")


class Auth(http.server.BaseHTTPRequestHandler):
    """Grants everything to who knows the secret."""

    def do_GET(self):
        secret = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query).get("secret")
        self.send_response(200 if secret == ["good"] else 403)
        self.end_headers()
        grant = {"permissions": ["publish", "subscribe"], "topic": ".*", "channels": [".*"]}
        self.wfile.write(json.dumps({"ttl": 3600, "identity": "test", "identity_url": "", "authorizations": [grant]}).encode())

    def log_message(self, *_):
        pass


class Broker:
    def __init__(self, directory, name, lookupd, extra):
        self.name = name
        file = os.path.join(directory, name + ".yaml")
        all_clients = ["go-nsq", "pynsq", "nsqjs", "nsq_to_file", "nsq_tail"]
        topics = ", ".join(f"{client}-{name}: {{rate: 200/s, depth: 3{limit}}}" for client in all_clients)
        tcp, web = free(), free()
        with open(file, "w") as out:
            out.write(
                f"listen: 127.0.0.1:{tcp}\nhttp: 127.0.0.1:{web}\nannounce: 127.0.0.1\nlookupd: ['{lookupd}']\nnode: {MODES.index(name)}\n"
                f"data: {directory}/{name}\ntopics: {{{topics}}}\n{extra}"
            )
        self.process = run(broker_program, file)
        line = self.process.stdout.readline()
        if "ready" not in line:
            raise SystemExit(f"messaging: the broker did not start: {line}{self.process.stderr.read()}")
        self.tcp, self.http = f"127.0.0.1:{tcp}", f"127.0.0.1:{web}"

    def topic(self, name):
        return get(self.http, f"/stats?format=json&topic={name}")["topics"][0]


def library(client, command, broker):
    """One of the three libraries; what it says, and what the broker counted."""
    topic = f"{client}-{broker.name}"
    child = run(*command, broker.tcp, broker.name, topic)
    try:
        out, err = child.communicate(timeout=40)
    except subprocess.TimeoutExpired:
        child.kill()
        out, err = "", "no end within 40 s"
    cells = {word: f"{word} ok" in out for word in ["PUB", "MPUB", "DPUB", "TOUCH"]}
    cells["SUB/RDY"] = "SUB ok" in out
    counted = broker.topic(topic)
    channel = counted["channels"][0] if counted["channels"] else {}
    all_in = counted["message_count"] == 21
    for word in ["PUB", "MPUB", "DPUB"]:
        cells[word] = cells[word] and all_in
    cells["FIN"] = bool(channel) and channel["depth"] + channel["in_flight_count"] + channel["deferred_count"] == 0
    cells["REQ"] = bool(channel) and channel["requeue_count"] == 1 and channel["timeout_count"] == 0
    return cells, out + err if not all(cells.values()) else ""


def program(client, broker, directory):
    """nsq_to_file or nsq_tail: takes 20 messages that HTTP published."""
    topic = f"{client}-{broker.name}"
    expected = [f"line {n}" for n in range(20)]
    request = urllib.request.Request(f"http://{broker.http}/mpub?topic={topic}", data="\n".join(expected).encode(), method="POST")
    urllib.request.urlopen(request, timeout=5).close()
    options = {
        "plain": [],
        "TLS": ["tls_v1,true", "tls_insecure_skip_verify,true"],
        "AUTH": ["auth_secret,good"],
        "compression": ["snappy,true"],
    }[broker.name]
    command = [os.path.join(programs, client), "-topic", topic, "-channel", "matrix", "-nsqd-tcp-address", broker.tcp]
    for option in options:
        command += ["-consumer-opt", option]
    if client == "nsq_tail":
        child = run(*command)
        got = [child.stdout.readline().rstrip("\n") for _ in expected]
    else:
        files = os.path.join(directory, "files-" + broker.name)
        child = run(*command, "-output-dir", files, "-sync-interval", "100ms")

        def written():
            lines = []
            for name in os.listdir(files):
                with open(os.path.join(files, name)) as text:
                    lines += text.read().split("\n")[:-1]
            return lines if len(lines) >= 20 else None

        got = until(f"nsq_to_file {broker.name}", written)

    def finished():
        channels = [c for c in broker.topic(topic)["channels"] if c["channel_name"].startswith("matrix")]
        return channels and channels[0]["depth"] + channels[0]["in_flight_count"] == 0

    until(f"FIN of {client} {broker.name}", finished)
    child.terminate()
    try:
        out, err = child.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        child.kill()
        out, err = "", "no end at SIGTERM within 10 s"
    cells = {word: None for word in COMMANDS}
    cells["SUB/RDY"] = sorted(got) == sorted(expected)
    cells["FIN"] = True
    return cells, out + err if not cells["SUB/RDY"] else ""


def administration(brokers, lookupd_http, admin_http):
    """What nsqlookupd and nsqadmin say of the brokers."""
    facts = {}
    nodes = get(lookupd_http, "/nodes")["producers"]
    told = {(n["broadcast_address"], n["tcp_port"], n["http_port"]) for n in nodes}
    ours = {("127.0.0.1", int(b.tcp.split(":")[1]), int(b.http.split(":")[1])) for b in brokers}
    facts["nsqlookupd: every broker, at its public address"] = told == ours
    found = get(lookupd_http, "/lookup?topic=go-nsq-plain")
    facts["nsqlookupd: a topic's broker and channel"] = len(found["producers"]) == 1 and found["channels"] == ["matrix"]
    admin = get(admin_http, "/api/nodes")["nodes"]
    facts["nsqadmin: nodes"] = {n["tcp_port"] for n in admin} == {port for _, port, _ in ours}
    facts["nsqadmin: topics"] = "nsqjs-TLS" in get(admin_http, "/api/topics")["topics"]
    topic = get(admin_http, "/api/topics/pynsq-AUTH")
    facts["nsqadmin: a topic's counts"] = topic["message_count"] == 21 and topic["channels"][0]["requeue_count"] == 1
    request = urllib.request.Request(
        f"http://{admin_http}/api/topics/go-nsq-plain/matrix", data=b'{"action":"pause"}', method="POST", headers={"Content-Type": "application/json"}
    )
    urllib.request.urlopen(request, timeout=5).close()
    facts["nsqadmin: pauses a channel"] = brokers[0].topic("go-nsq-plain")["channels"][0]["paused"]
    return facts


def main():
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        key, cert = directory + "/key.pem", directory + "/cert.pem"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-keyout", key, "-out", cert],
            check=True, capture_output=True,
        )
        auth = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Auth)
        threading.Thread(target=auth.serve_forever, daemon=True).start()
        lookupd_tcp, lookupd_http, admin_http = f"127.0.0.1:{free()}", f"127.0.0.1:{free()}", f"127.0.0.1:{free()}"
        run(
            programs + "/nsqlookupd", "-tcp-address", lookupd_tcp, "-http-address", lookupd_http, "-broadcast-address", "127.0.0.1",
            stdin=subprocess.DEVNULL,
        )
        until("nsqlookupd", lambda: get(lookupd_http, "/nodes"))
        extra = {
            "TLS": f"tls: {{certificate: {cert}, key: {key}, required: tcp-https}}\n",
            "AUTH": f"auth: ['127.0.0.1:{auth.server_port}']\n",
        }
        brokers = [Broker(directory, mode, lookupd_tcp, extra.get(mode, "")) for mode in MODES]
        run(programs + "/nsqadmin", "-http-address", admin_http, "-lookupd-http-address", lookupd_http)
        jobs = {}
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for broker in brokers:
                for client, command in [
                    ("go-nsq", [programs + "/gonsq"]),
                    ("pynsq", [python, HERE + "/pynsq_client.py"]),
                    ("nsqjs", [node, HERE + "/nsqjs_client.js"]),
                ]:
                    if (client, broker.name) == ("pynsq", "compression"):
                        continue  # pynsq 0.9.1's deflate loses its place in the stream, with nsqd 1.3.0 as with us
                    jobs[client, broker.name] = pool.submit(library, client, command, broker)
                for client in ["nsq_to_file", "nsq_tail"]:
                    jobs[client, broker.name] = pool.submit(program, client, broker, directory)
        print(f"{'':<14}{'':<13}" + "".join(f"{word:<9}" for word in COMMANDS))
        failed = ran = 0
        for (client, mode), job in sorted(jobs.items(), key=lambda item: (item[0][0], MODES.index(item[0][1]))):
            cells, why = job.result()
            shown = {True: "ok", False: "FAILED", None: "-"}
            print(f"{client:<14}{mode:<13}" + "".join(f"{shown[cells[word]]:<9}" for word in COMMANDS))
            ran += sum(cells[word] is not None for word in COMMANDS)
            failed += sum(cells[word] is False for word in COMMANDS)
            if why:
                print(f"    {client} {mode}: {why.strip()[-2000:]}")
        facts = administration(brokers, lookupd_http, admin_http)
        for fact, holds in facts.items():
            print(f"{fact}: {'ok' if holds else 'FAILED'}")
            ran, failed = ran + 1, failed + (not holds)
        print(f"messaging: matrix{limit}: {ran} cells ran, {failed} failed, {time.monotonic() - start:.1f} s")
        for broker in brokers:
            broker.process.terminate()
        for child in children:
            if child.poll() is None:
                child.terminate()
        for child in children:
            child.wait(20)
        return 1 if failed or ran < 4 * (3 * 7 + 2 * 2) - 7 + 6 else 0


sys.exit(main())
