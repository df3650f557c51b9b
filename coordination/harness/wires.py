"""Wires between servers that can be cut: a proxy for every ordered pair and both ports of a server."""
import asyncio
import threading

from ensemble import Ensemble, free_ports


class Wires:
    """Runs in a thread of its own. A cut wire is silent: nothing is closed, nothing arrives, as when a switch dies."""

    def __init__(self):
        self.cut = set()
        self.open = []
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def listen(self, port, ends, target):
        asyncio.run_coroutine_threadsafe(
            asyncio.start_server(lambda r, w: self._serve(r, w, ends, target), "127.0.0.1", port), self.loop).result(5)

    async def _serve(self, reader, writer, ends, target):
        try:
            await self._whole(ends)
            there_reader, there_writer = await asyncio.open_connection("127.0.0.1", target)
        except OSError:
            writer.close()
            return
        await asyncio.gather(self._pump(reader, there_writer, ends), self._pump(there_reader, writer, ends))

    async def _whole(self, ends):
        while ends in self.cut:
            await asyncio.sleep(0.01)

    async def _pump(self, reader, writer, ends):
        try:
            while True:
                data = await reader.read(65536)
                if not data:
                    break
                await self._whole(ends)
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()


class WiredEnsemble(Ensemble):
    """An ensemble whose servers reach each other through wires."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.wires, self.routes = Wires(), {}
        for a in self.servers:
            for b in self.servers:
                if a is not b:
                    ends = frozenset((a.number, b.number))
                    ports = free_ports(2)
                    self.wires.listen(ports[0], ends, b.quorum)
                    self.wires.listen(ports[1], ends, b.election)
                    self.routes[a, b] = ports

    def route(self, source, target):
        return self.routes[source, target]

    def isolate(self, server):
        self.wires.cut |= {frozenset((server.number, s.number)) for s in self.servers if s is not server}

    def heal(self):
        self.wires.cut.clear()
