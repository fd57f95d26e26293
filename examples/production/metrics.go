package main

import (
	"log/slog"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
)

// [snippet metrics]
// metrics observes the middleware and the store.
type metrics struct {
	decisions   *prometheus.CounterVec
	unavailable *prometheus.GaugeVec
	log         headgate.StoreObserver
}

func newMetrics(registry prometheus.Registerer, log *slog.Logger) *metrics {
	m := &metrics{
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ratelimit_decisions_total", Help: "Decisions by policy and outcome.",
		}, []string{"policy", "outcome", "degraded"}),
		unavailable: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "ratelimit_store_unavailable", Help: "1 while Redis, or this node of it, is unavailable.",
		}, []string{"node"}),
		log: fallback.LogEvents(log),
	}
	registry.MustRegister(m.decisions, m.unavailable)
	m.unavailable.WithLabelValues("").Set(0) // a single server has no name
	return m
}

// Observe is called for each charge of each request. It must return fast.
func (m *metrics) Observe(e headgate.Event) {
	outcome := "denied"
	switch {
	case e.Err != nil:
		outcome = "error"
	case e.Decision.Allowed:
		outcome = "allowed"
	}
	degraded := e.Decision.Degraded != headgate.ReasonNone
	m.decisions.WithLabelValues(e.Policy, outcome, strconv.FormatBool(degraded)).Inc()
}

// ObserveStore is called when Redis becomes unavailable and when it recovers.
func (m *metrics) ObserveStore(e headgate.StoreEvent) {
	m.log.ObserveStore(e)
	value := 0.0
	if e.Unavailable {
		value = 1
	}
	m.unavailable.WithLabelValues(e.Node).Set(value)
}

// [end metrics]
