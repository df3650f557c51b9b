# SPDX-License-Identifier: Apache-2.0
"""Publishes lines to a topic that a giusto-distributor manages, with pynsq alone: asks GET /assign where to send, and moves when told.

    assign.py DISTRIBUTOR TOPIC PUBLISHER <lines        for example: assign.py 127.0.0.1:4170 alarms sensor-17

Moving: connect to the new broker, await the old one's answers, then send to the new. A line without an answer within PATIENCE is sent
again, where the publisher is to send then: at least once. Ends when every line was told OK.
"""
import asyncio
import http.client
import json
import sys
import urllib.parse
import urllib.request

import nsq

PATIENCE = 5  # seconds


def ask(distributor, **question):
    """Where to send now. With `seen` and `wait` the distributor answers when that changes, or after `wait`."""
    url = "http://%s/assign?%s" % (distributor, urllib.parse.urlencode(question))
    with urllib.request.urlopen(url, timeout=10) as answer:  # a distributor that does not lead redirects to the leader
        return json.load(answer)


class Publisher:
    def __init__(self, distributor, topic, name):
        self.distributor, self.topic, self.name = distributor, topic, name
        self.told, self.writer, self.unanswered = {}, None, 0
        self.free = asyncio.Event()  # to send: there is a broker, and it is not being left

    async def follow(self):
        """Goes where the distributor says; while that is away it stays."""
        failed = ""
        while True:
            question = {"topic": self.topic, "publisher": self.name}
            if self.told and not failed:
                question.update(at=self.told["broker"], seen=self.told["version"], wait="5s")
            elif failed:
                question.update(failed=failed)
            try:
                told = await asyncio.to_thread(ask, self.distributor, **question)
            except (OSError, http.client.HTTPException, ValueError):  # the distributor is away, died, or has no answer
                await asyncio.sleep(1)
                continue
            try:
                if told["v2"] and (failed or told["broker"] != self.told.get("broker")):
                    await self.move(told)
                self.told, failed = told, ""
            except ConnectionError:  # to the broker
                failed = told["broker"]

    async def move(self, told):
        new = nsq.Writer([told["v2"]], user_agent="giusto/1 group=", heartbeat_interval=1)
        for _ in range(100):
            if any(conn.state == "CONNECTED" for conn in new.conns.values()):
                break
            await asyncio.sleep(0.01)
        else:
            raise ConnectionError(told["v2"])
        await asyncio.sleep(0.05)  # for its answer to IDENTIFY
        self.free.clear()
        for _ in range(PATIENCE * 100):
            if not self.unanswered:
                break
            await asyncio.sleep(0.01)
        old, self.writer = self.writer, new
        if old:
            for conn in list(old.conns.values()):
                conn.close()
            print("moved to", told["broker"], file=sys.stderr)
        self.free.set()

    async def publish(self, body):
        while True:
            await self.free.wait()
            answered = asyncio.get_running_loop().create_future()
            self.unanswered += 1
            try:
                self.writer.pub(self.topic, body, callback=lambda _, data: answered.done() or answered.set_result(data))
                if await asyncio.wait_for(answered, PATIENCE) == b"OK":
                    return
            except asyncio.TimeoutError:
                pass
            finally:
                self.unanswered -= 1
            await asyncio.sleep(0.1)  # it may have arrived nevertheless


async def main():
    publisher = Publisher(*sys.argv[1:4])
    following = asyncio.create_task(publisher.follow())
    publishing = asyncio.create_task(lines(publisher))
    done, _ = await asyncio.wait([following, publishing], return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()  # or its error
    print("all lines were told OK")
    following.cancel()


async def lines(publisher):
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        await publisher.publish(line.rstrip(b"\n"))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    asyncio.run(main())
