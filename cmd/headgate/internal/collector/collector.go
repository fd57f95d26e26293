// Package collector is a receiver of OTLP for tests, with the services that the protocol
// defines, over gRPC and over HTTP. tools/collector runs the receiver of the
// OpenTelemetry Collector.
package collector

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	metricsapi "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	traceapi "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// Collector receives traces and metrics. Create it with [Start]. It may be used
// concurrently.
type Collector struct {
	traceapi.UnimplementedTraceServiceServer
	metrics metricService
	url     string

	mu       sync.Mutex
	spans    []*traces.Span
	received map[string]*metrics.Metric
	resource map[string]string
	headers  map[string]string
}

// metricService is the second gRPC service, whose method has the same name.
type metricService struct {
	metricsapi.UnimplementedMetricsServiceServer
	collector *Collector
}

// Start starts a collector on a free loopback port. It ends with the test. protocol is
// grpc or http/protobuf.
func Start(t testing.TB, protocol string) *Collector {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Collector{url: "http://" + ln.Addr().String(), received: map[string]*metrics.Metric{}, resource: map[string]string{}, headers: map[string]string{}}
	c.metrics.collector = c
	var ended sync.WaitGroup
	if protocol == "grpc" {
		server := grpc.NewServer()
		traceapi.RegisterTraceServiceServer(server, c)
		metricsapi.RegisterMetricsServiceServer(server, &c.metrics)
		ended.Go(func() { _ = server.Serve(ln) })
		t.Cleanup(func() { server.Stop(); ended.Wait() })
		return c
	}
	server := &http.Server{Handler: http.HandlerFunc(c.serveHTTP), ReadHeaderTimeout: time.Minute}
	ended.Go(func() { _ = server.Serve(ln) })
	t.Cleanup(func() { _ = server.Close(); ended.Wait() })
	return c
}

// URL returns the URL of the collector.
func (c *Collector) URL() string { return c.url }

// Export receives spans.
func (c *Collector) Export(ctx context.Context, req *traceapi.ExportTraceServiceRequest) (*traceapi.ExportTraceServiceResponse, error) {
	fields, _ := metadata.FromIncomingContext(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, values := range fields {
		c.headers[name] = strings.Join(values, ",")
	}
	for _, r := range req.GetResourceSpans() {
		c.addResource(r.GetResource().GetAttributes())
		for _, s := range r.GetScopeSpans() {
			c.spans = append(c.spans, s.GetSpans()...)
		}
	}
	return &traceapi.ExportTraceServiceResponse{}, nil
}

// Export receives metrics.
func (m *metricService) Export(_ context.Context, req *metricsapi.ExportMetricsServiceRequest) (*metricsapi.ExportMetricsServiceResponse, error) {
	c := m.collector
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range req.GetResourceMetrics() {
		c.addResource(r.GetResource().GetAttributes())
		for _, s := range r.GetScopeMetrics() {
			for _, one := range s.GetMetrics() {
				c.received[one.GetName()] = one
			}
		}
	}
	return &metricsapi.ExportMetricsServiceResponse{}, nil
}

func (c *Collector) addResource(attributes []*common.KeyValue) {
	for name, value := range Attributes(attributes) {
		c.resource[name] = value
	}
}

// serveHTTP receives a request over HTTP, with the path of its signal.
func (c *Collector) serveHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = unzipped
	}
	text, err := io.ReadAll(body)
	switch {
	case err != nil:
	case r.URL.Path == "/v1/traces":
		req := new(traceapi.ExportTraceServiceRequest)
		if err = proto.Unmarshal(text, req); err == nil {
			_, err = c.Export(metadata.NewIncomingContext(r.Context(), lowerCase(r.Header)), req)
		}
	case r.URL.Path == "/v1/metrics":
		req := new(metricsapi.ExportMetricsServiceRequest)
		if err = proto.Unmarshal(text, req); err == nil {
			_, err = c.metrics.Export(r.Context(), req)
		}
	default:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func lowerCase(header http.Header) metadata.MD {
	fields := metadata.MD{}
	for name, values := range header {
		fields[strings.ToLower(name)] = values
	}
	return fields
}

// Spans returns all spans received so far.
func (c *Collector) Spans() []*traces.Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*traces.Span(nil), c.spans...)
}

// Metrics returns the last value of each metric by name.
func (c *Collector) Metrics() map[string]*metrics.Metric {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make(map[string]*metrics.Metric, len(c.received))
	for name, m := range c.received {
		all[name] = m
	}
	return all
}

// Resource returns the attributes of the sender, and a field of its last request.
func (c *Collector) Resource(header string) (attributes map[string]string, value string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	attributes = make(map[string]string, len(c.resource))
	for name, text := range c.resource {
		attributes[name] = text
	}
	return attributes, c.headers[header]
}

// Attributes returns attributes as text by name.
func Attributes(list []*common.KeyValue) map[string]string {
	all := make(map[string]string, len(list))
	for _, a := range list {
		switch v := a.GetValue().GetValue().(type) {
		case *common.AnyValue_StringValue:
			all[a.GetKey()] = v.StringValue
		default:
			all[a.GetKey()] = strings.TrimPrefix(a.GetValue().String(), "int_value:")
		}
	}
	return all
}
