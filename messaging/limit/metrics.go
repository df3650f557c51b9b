// SPDX-License-Identifier: Apache-2.0

package limit

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"giusto.dev/messaging/wire"
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("giusto_limit_"+name, help, labels, nil)
}

var (
	hits  = describe("hits_total", "What was asked for, by the answer.", "bucket", "answer")
	rates = describe("share_rate", "Tokens a second of the share by the orders in force.", "bucket")
	depth = describe("share_depth", "Tokens that the share holds at most.", "bucket")
	lease = describe("lease_seconds", "How long the distributor's orders still hold; less than 0: they do not.")
)

// gauges of a limiter.
type gauges struct{ *Limiter }

func (g gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{hits, rates, depth, lease} {
		to <- d
	}
}

func (g gauges) Collect(to chan<- prometheus.Metric) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	now := time.Now()
	left := (float64(g.holding.Until()) - float64(g.clock.Leases(now))) / 1e9
	to <- prometheus.MustNewConstMetric(lease, prometheus.GaugeValue, left)
	for name, s := range g.shares {
		to <- prometheus.MustNewConstMetric(hits, prometheus.CounterValue, float64(s.granted), name, "granted")
		to <- prometheus.MustNewConstMetric(hits, prometheus.CounterValue, float64(s.denied), name, "denied")
		to <- prometheus.MustNewConstMetric(rates, prometheus.GaugeValue, float64(s.share.Rate)/wire.Unit, name)
		to <- prometheus.MustNewConstMetric(depth, prometheus.GaugeValue, float64(s.share.Depth)/wire.Unit, name)
	}
}

func (v *Server) metrics() http.Handler {
	all := prometheus.NewRegistry()
	all.MustRegister(gauges{v.Limiter}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return promhttp.HandlerFor(all, promhttp.HandlerOpts{})
}
