package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyxds"
	"github.com/headgate/headgate/cmd/headgate/internal/respapi"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
)

// envoyRules keeps a folder of envoyproxy/ratelimit's files in force, or what a control plane says.
type envoyRules struct {
	service *service
	handler *rlsapi.Handler
	xds     *envoyxds.Client // nil if there is no control plane
	refused atomic.Bool      // the last configuration
	first   sync.Once
	ready   chan struct{} // closed behind the first configuration that holds

	mu   sync.Mutex
	read []envoyconfig.File // at the last look
	err  string             // what came of it
}

// openEnvoy makes the door for Envoy, with its configuration if there is one.
func (s *service) openEnvoy() error {
	c := &s.config.Envoy
	opts := &rlsapi.Options{
		Charge: rlsapi.Charge(c.Charge), Shadow: c.Shadow, Quota: c.Quota, DynamicMetadata: c.Metadata,
		NearLimitRatio: nearLimitRatio(c.NearLimit), NeedDomains: c.NeedDomains, Unavailable503: c.JSON503,
		MaxDescriptors: s.config.MaxChecks, MaxEntries: c.MaxEntries, MaxEntryBytes: s.config.MaxKeyBytes, MaxBodyBytes: s.config.MaxBodyBytes, Log: s.log,
	}
	if c.Headers {
		opts.Headers = &rlsapi.Headers{Limit: c.HeaderLimit, Remaining: c.HeaderRemaining, Reset: c.HeaderReset}
	}
	handler, err := rlsapi.New(s.at("grpc"), opts)
	if err != nil {
		return err
	}
	s.envoy = &envoyRules{service: s, handler: handler, ready: make(chan struct{})}
	if c.XDS.Server != "" {
		return s.envoy.openXDS()
	}
	if c.Config == "" {
		return nil
	}
	if s.envoy.load(true); s.envoy.refused.Load() && !c.StartAnyway {
		return fmt.Errorf("the files in %s (%s) are not accepted; mend them, or start all the same with --envoy-start-anyway",
			c.Config, s.config.Origins["envoy.config"])
	}
	return nil
}

// nearLimitRatio is a share as the door has it, where 0 is its default and less the share of nothing.
func nearLimitRatio(s engine.Share) float64 {
	if s == 0 {
		return -1
	}
	return float64(s) / 1_000_000
}

// load reads the folder, and puts what it holds into force, all of it or nothing. It says what came of it, if it is other than before or
// said always.
func (r *envoyRules) load(always bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	files, err := envoyconfig.ReadFolder(string(r.service.config.Envoy.Config), r.service.config.Envoy.DotFiles)
	if err == nil && !always && slices.EqualFunc(files, r.read, sameFile) && r.err == "" {
		return
	}
	var c *envoyconfig.Config
	if err == nil {
		r.read = files
		c, err = r.use(files)
	}
	r.refused.Store(err != nil)
	if err == nil {
		r.err = ""
		r.loaded(c, "files", len(files))
		return
	}
	if always || err.Error() != r.err {
		r.refuse(err)
	}
	r.err = err.Error()
}

func parseOptions(c *config.Envoy) *envoyconfig.ParseOptions {
	return &envoyconfig.ParseOptions{MergeDomains: c.MergeDomains, MaxEntries: c.MaxEntries}
}

func sameFile(a, b envoyconfig.File) bool {
	return a.Name == b.Name && string(a.Content) == string(b.Content)
}

func (r *envoyRules) use(files []envoyconfig.File) (*envoyconfig.Config, error) {
	c, err := envoyconfig.Parse(files, parseOptions(&r.service.config.Envoy))
	if err != nil {
		return nil, err
	}
	return c, r.handler.Use(c)
}

// loaded tells of a configuration that holds, of so many parts: first the log, then who waits to open the doors.
func (r *envoyRules) loaded(c *envoyconfig.Config, parts string, n int) {
	defer r.first.Do(func() { close(r.ready) })
	log := r.service.log
	log.Info("envoy configuration loaded", parts, n, "domains", c.Domains(), "rules", len(c.Rules()))
	for _, w := range c.Warnings()[:min(len(c.Warnings()), mostLogged)] {
		log.Warn("envoy configuration", "warning", shown(w.String()))
	}
	if c.Domains() == 0 && r.xds != nil {
		log.Warn("envoy configuration: the control plane says no domain, so that everything is admitted")
	} else if c.Domains() == 0 {
		log.Warn("envoy configuration: there is no *.yaml, so that everything is admitted", "folder", string(r.service.config.Envoy.Config))
	}
}

// holds reports whether there is a configuration.
func (r *envoyRules) holds() bool {
	select {
	case <-r.ready:
		return true
	default:
		return false
	}
}

// refuse counts a configuration that does not hold and tells every error, in the words of envoyproxy/ratelimit and with its place.
func (r *envoyRules) refuse(err error) {
	r.count(err)
	message := "envoy configuration refused: there is none until it is mended"
	if r.holds() {
		message = "envoy configuration refused: the last good one stays"
	}
	log := r.service.log
	var all envoyconfig.Errors
	if !errors.As(err, &all) {
		log.Error(message, "cause", shown(err.Error()))
		return
	}
	log.Error(message, "errors", len(all))
	for _, one := range all[:min(len(all), mostLogged)] {
		log.Error("envoy configuration", "error", shown(one.Error()), "at", one.Place())
	}
}

// mostShown bounds what the log tells of one error, in bytes: it may repeat a name of any length, and a line that is too long is lost.
const mostShown = 1 << 10

func shown(text string) string {
	if len(text) > mostShown {
		text = strings.ToValidUTF8(text[:mostShown], "") + "…"
	}
	return text
}

// followEnvoy keeps the folder in force until what it returns is called; SIGHUP has it read again.
func (s *service) followEnvoy(ctx context.Context) (end func()) {
	if s.config.Envoy.Config == "" {
		return func() {}
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	ended := inBackground(ctx, func(ctx context.Context) {
		if err := s.envoy.watch(ctx, hangups); err != nil {
			s.log.Error("envoy's configuration is not watched", "cause", err)
		}
	})
	return func() { signal.Stop(hangups); ended() }
}

func (r *envoyRules) watch(ctx context.Context, hangups <-chan os.Signal) error {
	w, err := config.Watch(string(r.service.config.Envoy.Config))
	if err != nil {
		return err
	}
	defer w.Close()
	r.load(false) // what came between the start and now
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangups:
			r.load(true)
		case <-w.Changes():
			r.load(false)
		}
	}
}

// grpc is the server for Envoy.
func (s *service) grpc() (*rlsapi.Server, error) {
	c := &s.config.GRPC
	opts := &rlsapi.ServerOptions{
		MaxMessageBytes: c.MaxMessageBytes, MaxConnections: c.MaxConnections, MaxStreams: c.MaxStreams,
		MaxHeaderBytes:   s.config.MaxHeaderBytes,
		MaxConnectionAge: c.MaxConnectionAge, AgeGrace: c.MaxConnectionAgeGrace, HandshakeTimeout: s.config.HeaderTimeout,
	}
	if files := s.tlsOf("grpc", &c.TLS, "h2"); files.Enabled() {
		var err error
		if opts.TLS, err = files.Config(); err != nil {
			return nil, err
		}
	}
	return rlsapi.NewServer(s.envoy.handler, opts), nil
}

func (s *service) listenGRPC(ctx context.Context) (net.Listener, error) {
	addr := s.config.GRPC.Addr
	path, ok := addr.Socket()
	if !ok {
		return listen(ctx, "gRPC", string(addr), "grpc-addr")
	}
	ln, err := respapi.ListenUnix(path, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for gRPC: %w; choose another address with --grpc-addr or %s", err, environmentName("grpc-addr"))
	}
	return ln, nil
}

// checkEnvoy says what is wrong with the files of envoy.config, in lines that a person reads.
func checkEnvoy(c *config.Config) (domains int, warnings []string, err error) {
	loaded, err := envoyconfig.Load(string(c.Envoy.Config), &envoyconfig.LoadOptions{
		ParseOptions: *parseOptions(&c.Envoy), DotFiles: c.Envoy.DotFiles,
	})
	if err != nil {
		return 0, nil, err
	}
	for _, w := range loaded.Warnings() {
		warnings = append(warnings, w.String())
	}
	return loaded.Domains(), warnings, nil
}
