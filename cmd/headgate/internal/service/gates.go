package service

import (
	"sync"

	"github.com/headgate/headgate/cmd/headgate/internal/access"
	"github.com/headgate/headgate/cmd/headgate/internal/admin"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/respapi"
)

// gates authenticate the clients of the HTTP API, of the admin listener and of the
// Redis-compatible endpoint.
type gates struct {
	http, admin *access.Gate
	lookup      func(string) (string, bool) // reads an environment variable

	mu    sync.Mutex
	resp  *respapi.Handler // nil until the endpoint is created
	users []access.Token   // of the Redis-compatible endpoint
}

// newGates returns gates with the tokens of a configuration. The error is
// [config.Errors].
func newGates(c *config.Config, lookup func(string) (string, bool)) (*gates, error) {
	g := &gates{http: access.NewGate(access.Client{Name: admin.Local.Name}), admin: access.NewGate(admin.Local), lookup: lookup}
	return g, g.apply(c, func() error { return nil })
}

// apply uses the tokens of a configuration if use succeeds. Otherwise it changes nothing.
func (g *gates) apply(c *config.Config, use func() error) error {
	http, err := c.HTTPTokens(g.lookup)
	if err != nil {
		return err
	}
	operators, err := c.AdminTokens(g.lookup)
	if err != nil {
		return err
	}
	users, err := c.RESPUsers(g.lookup)
	if err != nil {
		return err
	}
	if err := use(); err != nil {
		return err
	}
	g.http.Use(http)
	g.admin.Use(operators)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users = users; g.resp != nil {
		g.resp.SetUsers(users)
	}
	return nil
}

// attach sets the users of the Redis-compatible endpoint, also after a reload.
func (g *gates) attach(h *respapi.Handler) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.resp = h
	h.SetUsers(g.users)
}

// applyTo applies a configuration to an engine and to the gates, or changes nothing.
func (g *gates) applyTo(e *engine.Engine, c *config.Config) error {
	return g.apply(c, func() error { return e.Apply(c.Engine()) })
}
