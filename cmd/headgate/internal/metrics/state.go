package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ConfigState is how it stands with the configuration.
type ConfigState struct {
	Generation uint64    // of configurations that have taken effect, from 1
	Since      time.Time // when the last one did
	Loads      uint64    // how many have taken effect, the first too
	Refused    uint64    // how many did not
	Wrong      bool      // what the file holds now is not in force
}

// StoreState is what a store in memory holds.
type StoreState struct {
	Keys       int
	Bytes      int64
	Overflowed uint64 // decisions for keys that found no room and shared an overflow bucket
}

// Log adds how many lines the log has lost; dropped is asked at each scrape.
func (m *Metrics) Log(dropped func() uint64) {
	m.total("log_lines_dropped_total", "Lines of the log that nobody took.", func() float64 { return float64(dropped()) })
}

// Config adds what is known of the configuration; state is asked at each scrape.
func (m *Metrics) Config(state func() ConfigState) {
	m.of("config_generation", "How many configurations have taken effect.", func() float64 { return float64(state().Generation) })
	m.of("config_last_reload_successful", "Whether what the file holds now is in force: 0 while the last good one is.", func() float64 {
		return truth(!state().Wrong)
	})
	m.of("config_last_reload_success_timestamp_seconds", "When a configuration last took effect.", func() float64 {
		return float64(state().Since.UnixMilli()) / 1e3
	})
	m.total("config_loads_total", "Configurations that took effect, the first too.", func() float64 { return float64(state().Loads) })
	m.total("config_refused_total", "Configurations that were refused.", func() float64 { return float64(state().Refused) })
}

// Store adds what a store in memory holds; state is asked at each scrape.
func (m *Metrics) Store(state func() StoreState) {
	m.of("store_keys", "Keys that the store in memory holds.", func() float64 { return float64(state().Keys) })
	m.of("store_bytes", "Memory that the store in memory holds for state.", func() float64 { return float64(state().Bytes) })
	m.total("store_overflowed_total", "Decisions for keys that found no room in memory and shared an overflow bucket.", func() float64 {
		return float64(state().Overflowed)
	})
}

// XDSState is how it stands with the control plane that says Envoy's rules.
type XDSState struct {
	Connected bool   // a stream is open
	Failures  uint64 // how often it was not reached, or a stream ended
}

// XDS adds what is known of the control plane, for a service that has one; state is asked at each scrape.
func (m *Metrics) XDS(state func() XDSState) {
	m.of("envoy_xds_connected", "Whether the control plane of Envoy's rules is connected: 0 while the last good ones hold without it.",
		func() float64 { return truth(state().Connected) })
	m.total("envoy_xds_failures_total", "How often the control plane was not reached, or its stream ended.",
		func() float64 { return float64(state().Failures) })
}

func (m *Metrics) of(name, help string, value func() float64) {
	m.add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, value))
}

func (m *Metrics) total(name, help string, value func() float64) {
	m.add(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, value))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
