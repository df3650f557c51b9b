# SPDX-License-Identifier: Apache-2.0
"""Does with pynsq what matrix.py wants of a client: pynsq_client.py ADDRESS MODE TOPIC."""

import ssl
import sys

import nsq
from tornado import gen
from tornado.ioloop import IOLoop

address, mode, topic = sys.argv[1:]
options = {
    "plain": {},
    "TLS": {"tls_v1": True, "tls_options": {"cert_reqs": ssl.CERT_NONE}},
    "AUTH": {"auth_secret": "good"},
}[mode]
seen = set()
messages = [b"requeue", b"touch"] + [b"mpub %d" % n for n in range(8)]


def handle(message):
    if message.body == b"requeue" and message.attempts == 1:
        message.enable_async()
        message.requeue(backoff=False, delay=0)
        return
    if message.body == b"touch":
        message.touch()
    seen.add(bytes(message.body))
    return True


async def publish(command, *arguments):
    done = gen.Future()
    getattr(writer, command)(*arguments, callback=lambda conn, data: done.set_result(data))
    data = await done
    if data != b"OK":
        sys.exit("failed: %s: %r" % (command, data))


async def main():
    for _ in range(500):  # Writer connects by itself
        if writer.conns and all(conn.state == "CONNECTED" for conn in writer.conns.values()):
            break
        await gen.sleep(0.01)
    await gen.sleep(0.1)
    for n in range(10):
        await publish("pub", topic, b"pub %d" % n)
    print("PUB ok")
    await publish("mpub", topic, messages)
    print("MPUB ok")
    await publish("dpub", topic, 100, b"dpub")
    print("DPUB ok")
    reader = nsq.Reader(message_handler=handle, nsqd_tcp_addresses=[address], topic=topic, channel="matrix", max_in_flight=50, **options)
    for _ in range(1500):
        if len(seen) == 21:
            break
        await gen.sleep(0.01)
    else:
        sys.exit("failed: received %d" % len(seen))
    await gen.sleep(0.1)
    print("SUB ok\nTOUCH ok", flush=True)
    reader.close()
    IOLoop.current().stop()


loop = IOLoop.current()
writer = nsq.Writer([address], **options)
loop.add_callback(main)
loop.start()
