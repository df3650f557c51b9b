"""OpenTelemetry both ways, by its own packages (tests/otlp.sh installs them): metrics and late requests of a real Redis as a
collector decodes them, also one that comes late or refuses; and spans of its SDK, in protobuf, as what a service reports. Needs
root and two cores.
"""
import base64
import http.server
import json
import os
import signal
import socket
import sys
import threading
import time
import unittest

from google.protobuf import json_format
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.trace import SpanKind

from causes import Client
from running import Running, redis_process

COLLECTOR, PORT, SPANS = 4399, 7486, 7487
REDIS = f"[redis-server, --port, '{PORT}', --bind, 127.0.0.1, --save, '']"
SITE = (
    f"  cache: {{start: {REDIS}, promise: {{p99: 60ms}}, arrivals: {{poisson: 50/s}}, execution: 1.5ms}}\n",
    "  traced: {start: [sleep, '1000'], promise: {p80: 60ms}, arrivals: {poisson: 20/s}, execution: 1ms, "
    f"observe: {{reported: {{otlp: '127.0.0.1:{SPANS}'}}}}}}\n",
)


class Collector(http.server.ThreadingHTTPServer):
    """Decodes what comes as OTLP's specification says: JSON of its messages, identities in hexadecimal."""
    allow_reuse_address = True

    def __init__(self, answers=200):
        self.answers, self.metrics, self.spans, self.wrong = answers, [], [], []
        super().__init__(("127.0.0.1", COLLECTOR), Taker)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def end(self):
        self.shutdown()
        self.server_close()

    def take(self, path, kind, body):
        if kind != "application/json":
            raise ValueError(f"Content-Type: {kind}")
        message = json.loads(body)
        if path == "/v1/metrics":
            self.metrics.append(json_format.ParseDict(message, ExportMetricsServiceRequest()))
            return
        assert path == "/v1/traces", path
        for span in (span for one in message["resourceSpans"] for scope in one["scopeSpans"] for span in scope["spans"]):
            for key, length in (("traceId", 16), ("spanId", 8)):
                identity = bytes.fromhex(span[key])
                assert len(identity) == length and any(identity), span
                span[key] = base64.b64encode(identity).decode()
        request = json_format.ParseDict(message, ExportTraceServiceRequest())
        for one in request.resource_spans:
            resource = values(one.resource.attributes)
            self.spans += [(resource, scope.scope.name, span) for scope in one.scope_spans for span in scope.spans]


class Taker(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.server.answers == 200:
            try:
                self.server.take(self.path, self.headers["Content-Type"], body)
            except Exception as why:  # the test tells it
                self.server.wrong.append(repr(why))
        self.send_response(self.server.answers)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def values(attributes):
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


class Otlp(Running):
    flags = ("--otlp", f"http://127.0.0.1:{COLLECTOR}")

    def of(self, name):
        return next(one for one in self.status()["services"] if one["name"] == name)

    def responses(self, name):
        return self.of(name).get("responses") or {"answered": 0, "promised": [{"late": 0}]}

    def collector(self, answers=200):
        collector = Collector(answers)
        self.addCleanup(collector.end)
        return collector

    def stall(self):
        os.kill(self.redis, signal.SIGSTOP)
        time.sleep(0.2)
        os.kill(self.redis, signal.SIGCONT)

    def test_metrics_and_late_requests_reach_a_collector_and_spans_are_observed(self):
        self.start(*SITE)
        self.until(lambda: any("otlp: cannot send" in note for note in self.status()["notes"]), "told")
        sock = self.enterContext(socket.socket())
        self.until(lambda: sock.connect_ex(("127.0.0.1", PORT)) == 0, "listening")
        self.redis = redis_process(sock)
        client = Client(sock, 4_000)
        self.addCleanup(lambda: setattr(client, "ends", True))
        self.until(lambda: self.responses("cache")["answered"] > 20, "observed")
        def are_late():
            self.stall()
            time.sleep(2)
            return self.responses("cache")["promised"][0]["late"] > 3
        self.until(are_late, "late")
        self.assertEqual(self.status()["state"], "enforcing", "a collector that is not there holds nothing up")
        collector = self.collector()
        self.until(lambda: collector.spans and collector.metrics, "sent", 60)
        self.spans(collector)
        self.metered(collector)
        self.dropped(collector)
        self.sdk()
        self.assertEqual(collector.wrong, [])

    def spans(self, collector):
        late = self.responses("cache")["promised"][0]["late"]
        # The status counts to 0.8 %: one of 59.9 ms may be late there.
        self.until(lambda: len(collector.spans) >= late - 1, f"{late} late requests")
        for resource, scope, span in collector.spans:
            self.assertEqual((resource, scope), ({"service.name": "cache", "host.name": "test"}, "giusto"))
            took = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
            self.assertTrue(60 < took < 2_000, f"{took} ms")
            self.assertLess(abs(span.end_time_unix_nano / 1e9 - time.time()), 120)
            attributes = values(span.attributes)
            self.assertEqual((attributes["process.pid"], attributes["giusto.within_ns"]), (self.redis, 60_000_000))
            self.assertIn(attributes["giusto.cause"],
                          ("stolen", "manager", "kept", "itself", "requests", "execution", "chance", "unknown"))
            self.assertEqual((span.name, span.kind, span.status.code), ("late request", 2, 2))
        identities = {span.span_id for _, _, span in collector.spans}
        self.assertEqual(len(identities), len(collector.spans), "each once")
        print(f"\n{len(collector.spans)} late requests of {late}, the longest "
              f"{max(s.end_time_unix_nano - s.start_time_unix_nano for _, _, s in collector.spans) / 1e6:.0f} ms")

    def metered(self, collector):
        """Each metric of /metrics came, with its value where that does not change."""
        request = collector.metrics[-1]
        (resource,) = request.resource_metrics
        self.assertEqual(values(resource.resource.attributes), {"service.name": "giusto", "host.name": "test"})
        told = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
        shown = self.metrics()
        names = {key.split("{")[0].removesuffix("_total") for key in shown}
        names = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name in names}
        self.assertEqual(names - set(told), set())
        within, = (point for point in told["giusto_promise_within_seconds"].gauge.data_points
                   if values(point.attributes)["service"] == "cache")
        self.assertEqual((within.as_double, values(within.attributes)["percentile"]), (0.06, "99"))
        supply = told["giusto_service_supply_seconds"]
        self.assertTrue(supply.sum.is_monotonic and supply.sum.aggregation_temporality == 2 and supply.unit == "s", supply)
        (histogram,) = (point for point in told["giusto_response_seconds"].histogram.data_points
                        if values(point.attributes)["service"] == "cache")
        self.assertEqual(sum(histogram.bucket_counts), histogram.count)
        self.assertEqual(len(histogram.bucket_counts), len(histogram.explicit_bounds) + 1)
        self.assertTrue(0 < histogram.count <= self.responses("cache")["answered"])
        print(f"{len(told)} metrics")

    def dropped(self, collector):
        before = self.status()["otlp"]
        self.assertEqual((before["dropped"], before["problem"]), (0, None))
        collector.answers = 503
        self.stall()  # metrics are refused too
        self.until(lambda: "503" in (self.status()["otlp"]["problem"] or ""), "told")
        self.assertEqual(self.status()["otlp"]["dropped"], 0, "they wait")
        collector.answers, sent = 200, len(collector.spans)
        self.until(lambda: len(collector.spans) > sent, "sent again", 60)
        collector.answers = 400
        self.until(lambda: self.metric("giusto_otlp_dropped_total") >= 1, "dropped", 60)
        collector.answers = 200
        self.until(lambda: self.status()["otlp"]["problem"] is None, "well again", 60)

    def sdk(self):
        """Spans as OpenTelemetry's SDK sends them."""
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"http://127.0.0.1:{SPANS}/v1/traces")))
        tracer = provider.get_tracer("test")
        for _ in range(20):
            with tracer.start_as_current_span("work", kind=SpanKind.SERVER):
                time.sleep(0.002)
        self.until(lambda: self.responses("traced")["answered"] == 20, "observed")
        past = self.responses("traced")["past"][0]
        self.assertTrue(2_000_000 < past["p50_ns"] < 20_000_000, past)
        self.assertFalse([note for note in self.status()["notes"] if note.startswith("traced:")])


if __name__ == "__main__":
    if os.geteuid() != 0 or os.cpu_count() < 2:
        print("SKIPPED: needs root and two cores")
        sys.exit(77)
    unittest.main(verbosity=2)
