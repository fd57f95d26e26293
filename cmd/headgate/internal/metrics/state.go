package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ConfigState is the state of the service's configuration.
type ConfigState struct {
	Generation uint64    // number of the active configuration
	Since      time.Time // time at which the active configuration took effect
	Loads      uint64    // number of configurations that have taken effect, including the first
	Refused    uint64    // number of rejected configurations
	Rejected   bool      // whether the current file was rejected, so that the last valid configuration is active
}

// StoreState is the size of a memory store's content.
type StoreState struct {
	Keys       int
	Bytes      int64
	Overflowed uint64 // number of decisions for new keys that used an overflow bucket, because the store was full
}

// Log adds a metric with the number of dropped log lines. The function dropped returns
// this number and is called at each scrape.
func (m *Metrics) Log(dropped func() uint64) {
	m.counterFunc("log_lines_dropped_total", "Log lines that were dropped because the reader was too slow or gone.", func() float64 { return float64(dropped()) })
}

// Config adds metrics of the configuration. The function state is called at each
// scrape.
func (m *Metrics) Config(state func() ConfigState) {
	m.gaugeFunc("config_generation", "Number of the active configuration, counted from 1 at the start.", func() float64 { return float64(state().Generation) })
	m.gaugeFunc("config_last_reload_successful", "1 if the current configuration file is active, 0 if it was rejected and the last valid one is active.", func() float64 {
		return boolValue(!state().Rejected)
	})
	m.gaugeFunc("config_last_reload_success_timestamp_seconds", "Unix time at which a configuration last took effect.", func() float64 {
		return float64(state().Since.UnixMilli()) / 1e3
	})
	m.counterFunc("config_loads_total", "Configurations that took effect, including the first.", func() float64 { return float64(state().Loads) })
	m.counterFunc("config_refused_total", "Configurations that were rejected as invalid.", func() float64 { return float64(state().Refused) })
}

// Store adds metrics of a memory store's content. The function state is called at each
// scrape.
func (m *Metrics) Store(state func() StoreState) {
	m.gaugeFunc("store_keys", "Keys in the memory store.", func() float64 { return float64(state().Keys) })
	m.gaugeFunc("store_bytes", "Bytes of memory that the memory store uses for state.", func() float64 { return float64(state().Bytes) })
	m.counterFunc("store_overflowed_total", "Decisions for new keys that shared an overflow bucket or log because the memory store was full.", func() float64 {
		return float64(state().Overflowed)
	})
}

// FolderState is the state of the folder in which a memory store saves its state.
type FolderState struct {
	Bytes           int64
	LastSync        time.Time
	Syncs, Failures uint64
	Failing         bool // whether the last sync failed
}

// Folder adds metrics of the folder of a memory store. The function state is called at
// each scrape.
func (m *Metrics) Folder(state func() FolderState) {
	m.gaugeFunc("store_file_bytes", "Size of the files in which the memory store saves its state.", func() float64 { return float64(state().Bytes) })
	m.gaugeFunc("store_sync_age_seconds", "Time since the last sync began that succeeded: a crash forgets what was admitted in this time.", func() float64 {
		return time.Since(state().LastSync).Seconds()
	})
	m.gaugeFunc("store_saving", "1 if the memory store can save its state, 0 if the last sync failed.", func() float64 { return boolValue(!state().Failing) })
	m.counterFunc("store_syncs_total", "Syncs of the state to the disk that succeeded.", func() float64 { return float64(state().Syncs) })
	m.counterFunc("store_sync_failures_total", "Syncs, and other writes of the state, that failed.", func() float64 { return float64(state().Failures) })
}

// OverridesState is the state of the overrides in the store.
type OverridesState struct {
	Entries  int       // entries that have not ended
	Ignored  int       // entries without an effect
	Revision uint64    // number of changes of the entries
	Checked  time.Time // last time at which the store confirmed the entries; zero if it never has
	Polls    uint64
	Failed   uint64
	Restored uint64 // number of times that lost entries were saved again
}

// Overrides adds metrics of the overrides in the store. The function state is called at
// each scrape.
func (m *Metrics) Overrides(state func() OverridesState) {
	m.gaugeFunc("overrides", "Overrides in the store that have not ended.", func() float64 { return float64(state().Entries) })
	m.gaugeFunc("overrides_without_effect", "Overrides in the store whose policy does not exist or does not accept them.",
		func() float64 { return float64(state().Ignored) })
	m.gaugeFunc("overrides_revision", "Revision of the overrides in the store, equal at all instances within a second of a change.",
		func() float64 { return float64(state().Revision) })
	m.gaugeFunc("overrides_checked_timestamp_seconds", "Unix time at which the store last confirmed the overrides; 0 if it never has.", func() float64 {
		if s := state(); !s.Checked.IsZero() {
			return float64(s.Checked.UnixMilli()) / 1e3
		}
		return 0
	})
	m.counterFunc("overrides_polls_total", "Polls of the store for overrides.", func() float64 { return float64(state().Polls) })
	m.counterFunc("overrides_polls_failed_total", "Polls of the store for overrides that failed; the last known overrides stay in effect.",
		func() float64 { return float64(state().Failed) })
	m.counterFunc("overrides_restored_total", "Times that this instance saved overrides again that the store had lost.",
		func() float64 { return float64(state().Restored) })
}

// EventState has the counts of events.
type EventState struct {
	Reported map[string]uint64 // by type
	Dropped  uint64
	Sent     uint64
	Failed   uint64
	Retries  uint64
}

// Events adds metrics of events. The function state is called at each scrape.
func (m *Metrics) Events(state func() EventState) {
	m.add(&reported{state})
	m.counterFunc("events_dropped_total", "Events that were not reported, because a queue was full, the store failed or the service ended.",
		func() float64 { return float64(state().Dropped) })
	for result, count := range map[string]func(EventState) uint64{
		"sent": func(s EventState) uint64 { return s.Sent }, "failed": func(s EventState) uint64 { return s.Failed },
	} {
		m.add(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: namespace, Name: "webhooks_total", ConstLabels: prometheus.Labels{"result": result},
			Help: "Webhooks: accepted by the receiver, or given up after all attempts.",
		}, func() float64 { return float64(count(state())) }))
	}
	m.counterFunc("webhook_retries_total", "Attempts to send a webhook after the first.", func() float64 { return float64(state().Retries) })
}

// reported is a Prometheus collector of the events by type.
type reported struct{ state func() EventState }

var reportedDesc = prometheus.NewDesc(namespace+"_events_total", "Events that this instance has reported, by type.", []string{"type"}, nil)

func (c *reported) Describe(to chan<- *prometheus.Desc) { to <- reportedDesc }

func (c *reported) Collect(to chan<- prometheus.Metric) {
	for kind, n := range c.state().Reported {
		to <- prometheus.MustNewConstMetric(reportedDesc, prometheus.CounterValue, float64(n), kind)
	}
}

// BanState has the counts of the bans.
type BanState struct {
	Begun   map[string]uint64 // by policy
	Counted uint64
	Dropped uint64
	Failed  uint64
}

// Bans adds metrics of bans. The function state is called at each scrape.
func (m *Metrics) Bans(state func() BanState) {
	m.add(&banned{state})
	for result, count := range map[string]func(BanState) uint64{
		"counted": func(s BanState) uint64 { return s.Counted }, "dropped": func(s BanState) uint64 { return s.Dropped },
		"failed": func(s BanState) uint64 { return s.Failed },
	} {
		m.add(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: namespace, Name: "ban_denials_total", ConstLabels: prometheus.Labels{"result": result},
			Help: "Denials for bans: counted in the store, dropped because of too many keys, or failed because of the store.",
		}, func() float64 { return float64(count(state())) }))
	}
}

// banned is a Prometheus collector of the bans by policy.
type banned struct{ state func() BanState }

var bannedDesc = prometheus.NewDesc(namespace+"_bans_total", "Bans that this instance has begun.", []string{"policy"}, nil)

func (b *banned) Describe(to chan<- *prometheus.Desc) { to <- bannedDesc }

func (b *banned) Collect(to chan<- prometheus.Metric) {
	for policy, n := range b.state().Begun {
		to <- prometheus.MustNewConstMetric(bannedDesc, prometheus.CounterValue, float64(n), policy)
	}
}

// LeaseState has the counts of a store with leases.
type LeaseState struct {
	Keys     int   // keys that are leased
	Units    int64 // units on lease that were not spent
	Stranded int64 // units of leases that ended before they were spent or returned
	Memory   int64 // decisions from memory
	Calls    int64 // calls to the store for leases
	Failed   int64 // calls that failed
	Waits    int64 // requests that waited for a renewal
}

// Leases adds metrics of leases. The function state is called at each scrape.
func (m *Metrics) Leases(state func() LeaseState) {
	m.gaugeFunc("lease_keys", "Keys that this instance has leased.", func() float64 { return float64(state().Keys) })
	m.gaugeFunc("lease_units", "Units that this instance has on lease and has not spent.", func() float64 { return float64(state().Units) })
	for name, c := range map[string]struct {
		help  string
		count func(LeaseState) int64
	}{
		"decisions_total":          {"Decisions in memory, under one limit each.", func(s LeaseState) int64 { return s.Memory }},
		"store_calls_total":        {"Calls to the store that took, renewed or returned units.", func(s LeaseState) int64 { return s.Calls }},
		"store_calls_failed_total": {"Calls to the store for leases that failed; they are repeated.", func(s LeaseState) int64 { return s.Failed }},
		"stranded_units_total":     {"Units of leases that ended before they were spent or returned.", func(s LeaseState) int64 { return s.Stranded }},
		"waits_total":              {"Requests that waited for the renewal of a lease.", func(s LeaseState) int64 { return s.Waits }},
	} {
		m.counterFunc("lease_"+name, c.help, func() float64 { return float64(c.count(state())) })
	}
}

// XDSState is the state of the connection to the control plane that sends Envoy rules.
type XDSState struct {
	Connected bool   // whether a stream is open
	Failures  uint64 // number of failed connections and ended streams
}

// XDS adds metrics of the control plane. Call it only if a control plane is configured.
// The function state is called at each scrape.
func (m *Metrics) XDS(state func() XDSState) {
	m.gaugeFunc("envoy_xds_connected", "1 if the xDS control plane is connected, 0 if not; the last valid rules stay active.",
		func() float64 { return boolValue(state().Connected) })
	m.counterFunc("envoy_xds_failures_total", "Failed connections to the xDS control plane, and streams that ended.",
		func() float64 { return float64(state().Failures) })
}

func (m *Metrics) gaugeFunc(name, help string, value func() float64) {
	m.add(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, value))
}

func (m *Metrics) counterFunc(name, help string, value func() float64) {
	m.add(prometheus.NewCounterFunc(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, value))
}

func boolValue(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
