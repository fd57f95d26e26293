package metrics

// Exports adds a counter of failed exports, with a series for each of the exporters. It
// returns a function that counts err, unless it is nil, for one of them.
func (m *Metrics) Exports(exporters ...string) (report func(exporter string, err error)) {
	failed := counter("exports_failed_total", "Failed attempts to send metrics or traces to another system.", "exporter")
	for _, name := range exporters {
		failed.WithLabelValues(name)
	}
	m.add(failed)
	return func(exporter string, err error) {
		if err != nil {
			failed.WithLabelValues(exporter).Inc()
		}
	}
}

// Spans adds metrics of the spans of traces. The function count returns the number of
// recorded spans and of exported ones, and is called at each scrape.
func (m *Metrics) Spans(count func() (recorded, exported uint64)) {
	m.counterFunc("spans_total", "Spans of traces that were recorded.", func() float64 {
		n, _ := count()
		return float64(n)
	})
	m.counterFunc("spans_exported_total", "Spans that the collector has received. Spans that stay behind headgate_spans_total were dropped.", func() float64 {
		_, n := count()
		return float64(n)
	})
}
