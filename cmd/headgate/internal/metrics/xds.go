package metrics

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
