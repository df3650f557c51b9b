// SPDX-License-Identifier: Apache-2.0

package distributor

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"giusto.dev/messaging/control"
)

// metrics of a distributor. Those of topics and brokers are of the leader.
type metrics struct {
	registry   *prometheus.Registry
	takeovers  prometheus.Counter
	saves      *prometheus.CounterVec
	brokers    *prometheus.GaugeVec
	publishers *prometheus.GaugeVec
	rate       *prometheus.GaugeVec
	phase      *prometheus.GaugeVec
}

func newMetrics(d *Distributor) *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "giusto_distributor_" + name, Help: help}, labels)
		m.registry.MustRegister(g)
		return g
	}
	m.takeovers = prometheus.NewCounter(prometheus.CounterOpts{Name: "giusto_distributor_takeovers_total", Help: "how often it became the leader"})
	m.saves = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "giusto_distributor_saves_total", Help: "of what a later leader must know"}, []string{"result"})
	leads := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "giusto_distributor_leads", Help: "1: it leads"}, func() float64 {
		if d.term.Load() != nil {
			return 1
		}
		return 0
	})
	m.brokers = gauge("brokers", "brokers, by whether they report", "alive")
	m.publishers = gauge("publishers", "publishers of a topic at a broker", "topic", "broker")
	m.rate = gauge("rate", "messages a second of a topic's publishers at a broker", "topic", "broker")
	m.phase = gauge("steady", "1: no publisher of the topic moves and nothing is measured", "topic")
	m.registry.MustRegister(m.takeovers, m.saves, leads, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// count takes stock.
func (m *metrics) count(s control.Status) {
	for _, g := range []*prometheus.GaugeVec{m.brokers, m.publishers, m.rate, m.phase} {
		g.Reset()
	}
	for _, b := range s.Brokers {
		alive := "no"
		if b.Alive {
			alive = "yes"
		}
		m.brokers.WithLabelValues(alive).Inc()
	}
	for _, t := range s.Topics {
		steady := 0.0
		if t.Phase == "steady" {
			steady = 1
		}
		m.phase.WithLabelValues(t.Name).Set(steady)
		for _, p := range t.Shares {
			m.publishers.WithLabelValues(t.Name, p.Broker).Set(float64(p.Publishers))
			m.rate.WithLabelValues(t.Name, p.Broker).Set(p.Assigned)
		}
	}
}
