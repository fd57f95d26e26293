// Production is an HTTP API with the settings that several replicas need: limits in Redis
// through the program's own client, a local fallback, trusted proxies, one limit for each
// user and one for each address, metrics, timeouts and graceful shutdown.
package main

import (
	"cmp"
	"context"
	"errors"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/goredis"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

// [snippet run]
func run(ctx context.Context) error {
	m := newMetrics(prometheus.DefaultRegisterer, slog.Default())
	client := newClient(cmp.Or(os.Getenv("REDIS_ADDR"), "127.0.0.1:6379"))
	defer client.Close()
	store, err := newStore(client, m, fallback.DefaultBudget)
	if err != nil {
		return err
	}
	defer store.Close() // before the client: deferred calls run in reverse order
	handler, err := newHandler(store, m)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:8000")
	if err != nil {
		return err
	}
	go func() { log.Fatal(http.ListenAndServe("127.0.0.1:9090", promhttp.Handler())) }() // metrics are not public
	return serve(ctx, listener, handler)
}

// [end run]

// [snippet store]
func newClient(addr string) *redis.Client {
	return redis.NewClient(&redis.Options{
		Addr:                  addr,
		ContextTimeoutEnabled: true, // a call that is out of time releases its connection
		DialerRetries:         1,    // package fallback tries again, in the background
	})
}

func newStore(client redis.UniversalClient, m *metrics, budget time.Duration) (headgate.Store, error) {
	shared, err := redisstore.New(goredis.Client(client), &redisstore.Options{Namespace: "shop"})
	if err != nil {
		return nil, err
	}
	return fallback.New(shared, &fallback.Options{
		Local:     memstore.New(nil),
		Instances: 3,      // replicas of this program: each decides on a third of a limit
		Budget:    budget, // the time that a request waits for Redis
		Observer:  m,
	})
}

// [end store]

// [snippet limits]
func newHandler(store headgate.Store, m *metrics) (http.Handler, error) {
	perUser := headgate.MustNamedPolicy("api-user", "1000/1h burst 20")
	perAddress := headgate.MustNamedPolicy("api-address", "3000/1h burst 60")
	perUser.OnStoreError, perAddress.OnStoreError = headgate.FailLocal, headgate.FailLocal
	limit, err := httplimit.New(store, &httplimit.Options{
		Client:   &clientaddr.Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
		Observer: m,
	},
		httplimit.Charge{Policy: perUser, Key: httplimit.Func(userOf), When: func(r *http.Request) bool { _, ok := userOf(r); return ok }},
		httplimit.Charge{Policy: perAddress}, // the key is the client's address
	)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /orders", limit(http.HandlerFunc(orders)))
	mux.HandleFunc("GET /healthz", func(http.ResponseWriter, *http.Request) {}) // not limited, and does not need Redis
	return mux, nil
}

// [end limits]

// [snippet serve]
// serve returns after ctx has ended and the requests in flight are answered.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
	stopped := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		timeout, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		stopped <- server.Shutdown(timeout)
	})
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

// [end serve]
