"""Wires between servers that can be cut, each direction by itself: a proxy for every ordered pair and both ports of a server."""
import asyncio
import threading

from ensemble import Ensemble, free_ports


# So long stock tries to connect to a leader: five times, with 100 ms between.
LISTENS_S = 0.5


class Wires:
    """Runs in a thread of its own. A cut wire is silent: nothing is closed, nothing arrives, as when a switch dies.
    What was sent meanwhile arrives when it is whole again, as TCP would send it again."""

    def __init__(self):
        # (Number of the sender, number of the receiver); or (name of a port, number of the server whose it is), which is then silent.
        self.cut = set()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def listen(self, port, source, target, there, name):
        asyncio.run_coroutine_threadsafe(
            asyncio.start_server(lambda r, w: self._serve(r, w, source, target, there, name), "127.0.0.1", port), self.loop).result(5)

    async def _serve(self, reader, writer, source, target, there, name):
        port = name, target
        try:
            # A connection takes packets both ways.
            await self._whole(source, target, port)
            await self._whole(target, source, port)
            there_reader, there_writer = await self._open(there)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._pump(reader, there_writer, source, target, port), self._pump(there_reader, writer, target, source, port))

    async def _open(self, there):
        """A wire refuses nothing by itself. Who connects before the other side listens would be told at once, and try again."""
        end = self.loop.time() + LISTENS_S
        while True:
            try:
                return await asyncio.open_connection("127.0.0.1", there)
            except OSError:
                if self.loop.time() > end:
                    raise
                await asyncio.sleep(0.01)

    async def _whole(self, source, target, port):
        while (source, target) in self.cut or port in self.cut:
            await asyncio.sleep(0.01)

    async def _pump(self, reader, writer, source, target, port):
        data = True
        while data:
            try:
                data = await reader.read(65536)
            except OSError:
                data = b""
            # The end of a connection is a packet, too.
            await self._whole(source, target, port)
            try:
                writer.write(data)
                await writer.drain()
            except OSError:
                break
        writer.close()


class WiredEnsemble(Ensemble):
    """An ensemble whose servers reach each other through wires."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.wires, self.routes = Wires(), {}
        for a in self.servers:
            for b in self.servers:
                if a is not b:
                    ports = free_ports(2)
                    self.wires.listen(ports[0], a.number, b.number, b.quorum, "quorum")
                    self.wires.listen(ports[1], a.number, b.number, b.election, "election")
                    self.routes[a, b] = ports

    def route(self, source, target):
        return self.routes[source, target]

    def mute(self, server):
        """Nothing that it sends arrives."""
        self.wires.cut |= {(server.number, s.number) for s in self.servers if s is not server}

    def deafen(self, server):
        """Nothing arrives that is sent to it."""
        self.wires.cut |= {(s.number, server.number) for s in self.servers if s is not server}

    def isolate(self, server):
        self.mute(server)
        self.deafen(server)

    def part(self, a, b):
        """Two servers do not reach each other."""
        self.wires.cut |= {(a.number, b.number), (b.number, a.number)}

    def heal(self):
        self.wires.cut = set()
