// SPDX-License-Identifier: Apache-2.0

package broker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"giusto.dev/messaging/wire"
)

// bounds of the histograms of times.
var bounds = [...]time.Duration{50e3, 100e3, 200e3, 500e3, 1e6, 2e6, 5e6, 10e6, 20e6, 50e6, 100e6, 200e6, 500e6, 1e9, 10e9}

type histogram struct {
	counts [len(bounds) + 1]atomic.Uint64
	sum    atomic.Int64
}

func (h *histogram) observe(d time.Duration) {
	n := 0
	for n < len(bounds) && d > bounds[n] {
		n++
	}
	h.counts[n].Add(1)
	h.sum.Add(int64(d))
}

func (h *histogram) metric(about *prometheus.Desc, labels ...string) prometheus.Metric {
	upTo, total := map[float64]uint64{}, uint64(0)
	for n, bound := range bounds {
		total += h.counts[n].Load()
		upTo[bound.Seconds()] = total
	}
	total += h.counts[len(bounds)].Load()
	return prometheus.MustNewConstHistogram(about, total, time.Duration(h.sum.Load()).Seconds(), upTo, labels...)
}

// counts of one topic with a limit. They outlive the limit, as counters must.
type counts struct {
	accepted, released, refused, lost atomic.Uint64
	access, lag                       histogram
}

func about(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("giusto_broker_"+name, help, labels, nil)
}

var (
	aboutAccepted = about("accepted_messages_total", "Messages accepted from producers, of topics with a limit.", "topic")
	aboutReleased = about("released_messages_total", "Messages released to nsqd.", "topic")
	aboutRefused  = about("refused_messages_total", "Messages refused because the topic's queue stayed full.", "topic")
	aboutLost     = about("lost_messages_total", "Acknowledged messages that nsqd did not take until the broker ended.", "topic")
	aboutHeld     = about("held_messages_total", "Messages that the inbox held because they, or one before, were read late.", "topic")
	aboutDelayed  = about("delayed_messages_total", "Messages that waited for tokens.", "topic")
	aboutKept     = about("kept_messages", "Messages in the inbox and waiting for tokens, now.", "topic")
	aboutQueue    = about("queue_used", "How much of the queue is taken, now: messages, one for each KiB begun.", "topic")
	aboutLimit    = about("queue_limit", "How much the queue takes.", "topic")
	aboutAccess   = about("access_seconds", "From the kernel's stamp of a message to its release to nsqd.", "topic")
	aboutLag      = about("read_lag_seconds", "From the kernel's stamp of a message to when it was read.", "topic")
	aboutGiven    = about("delivered_messages_total", "Messages given a token at delivery, of channels with a limit there.", "topic", "channel")
	aboutLate     = about("late_messages_total", "Of these, those that may have entered a consumer's socket after the lease.", "topic", "channel")
	aboutUnlisted = about("unlimited_messages_total", "Messages released to nsqd, of topics without a limit.")
	aboutClients  = about("connections", "Connections, now.", "role")
	aboutOpened   = about("connections_total", "Connections accepted.")
	aboutErrors   = about("error_frames_total", "Error frames sent.", "code")
	aboutReports  = about("reports_total", "Reports to distributors.", "result")
	aboutLease    = about("lease_seconds", "How long the distributor's orders still hold; less than 0: since when not.")
	aboutOrders   = about("orders_version", "Version of the orders in force.")
	aboutEpoch    = about("orders_epoch", "Epoch of the distributor that gave them.")
	aboutRate     = about("share_rate", "The topic's share of its bucket: tokens a second.", "topic")
	aboutDepth    = about("share_depth", "The topic's share of its bucket: tokens.", "topic")
	aboutReloads  = about("reloads_total", "Reloads of the static file.", "result")
)

// flow counts of one channel with a limit at delivery, as long as counts.
type flow struct {
	topic, channel string
	delivered      atomic.Uint64
	late           atomic.Uint64 // written at the end of a lease, perhaps after it
}

type metrics struct {
	mutex            sync.Mutex
	flows            map[string]*flow
	topics           map[string]*counts
	errors           map[string]uint64
	unlimited        atomic.Uint64
	opened           atomic.Uint64
	reloaded, failed atomic.Uint64
	broker           *Broker
}

func (m *metrics) topic(name string) *counts {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.topics[name] == nil {
		m.topics[name] = &counts{}
	}
	return m.topics[name]
}

func (m *metrics) flow(topic, channel string) *flow {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	key := topic + ":" + channel
	if m.flows[key] == nil {
		m.flows[key] = &flow{topic: topic, channel: channel}
	}
	return m.flows[key]
}

func (m *metrics) failure(code string) {
	m.mutex.Lock()
	m.errors[code]++
	m.mutex.Unlock()
}

// registry gathers ours, the process's and the Go runtime's.
func (m *metrics) registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Describe sends nothing: topics come and go.
func (m *metrics) Describe(chan<- *prometheus.Desc) {}

// Collect tells all counts as they are now.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	counter := func(about *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(about, prometheus.CounterValue, float64(value), labels...)
	}
	exactly := func(about *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(about, prometheus.GaugeValue, value, labels...)
	}
	gauge := func(about *prometheus.Desc, value int64, labels ...string) { exactly(about, float64(value), labels...) }
	if f := m.broker.follower; f != nil {
		f.tell(counter, exactly)
	}
	counter(aboutUnlisted, m.unlimited.Load())
	counter(aboutOpened, m.opened.Load())
	counter(aboutReloads, m.reloaded.Load(), "done")
	counter(aboutReloads, m.failed.Load(), "refused")
	all, consumers := m.broker.connections()
	gauge(aboutClients, int64(all-consumers), "producer")
	gauge(aboutClients, int64(consumers), "consumer")
	m.mutex.Lock()
	topics := make(map[string]*counts, len(m.topics))
	for name, c := range m.topics {
		topics[name] = c
	}
	for _, f := range m.flows {
		if given := f.delivered.Load(); given > 0 {
			counter(aboutGiven, given, f.topic, f.channel)
			counter(aboutLate, f.late.Load(), f.topic, f.channel)
		}
	}
	for code, count := range m.errors {
		counter(aboutErrors, count, code)
	}
	m.mutex.Unlock()
	for name, c := range topics {
		counter(aboutAccepted, c.accepted.Load(), name)
		counter(aboutReleased, c.released.Load(), name)
		counter(aboutRefused, c.refused.Load(), name)
		counter(aboutLost, c.lost.Load(), name)
		out <- c.access.metric(aboutAccess, name)
		out <- c.lag.metric(aboutLag, name)
	}
	for name, t := range *m.broker.topics.Load() {
		t.mutex.Lock()
		held, delayed, kept, used, limit := t.gate.Counts.Held, t.gate.Counts.Delayed, t.gate.Kept(), t.used, t.limit
		share, follows := t.share, t.lease > 0
		t.mutex.Unlock()
		counter(aboutHeld, held, name)
		counter(aboutDelayed, delayed, name)
		gauge(aboutKept, int64(kept), name)
		gauge(aboutQueue, used, name)
		gauge(aboutLimit, limit, name)
		if follows {
			exactly(aboutRate, float64(share.Rate)/wire.Unit, name)
			exactly(aboutDepth, float64(share.Depth)/wire.Unit, name)
		}
	}
}

// tell tells of the distributor's orders.
func (f *follower) tell(counter func(*prometheus.Desc, uint64, ...string), gauge func(*prometheus.Desc, float64, ...string)) {
	sent, failed := f.reporter.Sent.Load(), f.reporter.Failed.Load()
	counter(aboutReports, sent-min(failed, sent), "done")
	counter(aboutReports, failed, "failed")
	gauge(aboutOrders, float64(f.version.Load()))
	gauge(aboutEpoch, float64(f.epoch.Load()))
	if until := f.until.Load(); until > 0 {
		gauge(aboutLease, (time.Duration(until) - time.Duration(f.broker.leases(time.Now()))).Seconds())
	}
}
