package main

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/demo"
)

// demoPath is where the page stands at the door for HTTP.
const demoPath = "/demo"

// servedPage is the page of headgate demo at a service's door: over a small store of its own, so that nothing is spent that counts. It is
// made when somebody opens it.
type servedPage struct {
	checkURL string
	log      *slog.Logger

	mu     sync.Mutex
	store  headgate.Store
	page   *demo.Handler
	routes http.Handler
	closed bool
}

// mountDemo adds the page to what stands at the door, where nobody but this machine reaches it: there is no login.
func (s *service) mountDemo(ln net.Listener, at map[string]http.Handler) *servedPage {
	tcp, ok := ln.Addr().(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		return nil
	}
	p := &servedPage{checkURL: scheme(ln) + "://" + reachable(ln.Addr()) + "/v1/check", log: s.log}
	at[demoPath] = http.RedirectHandler(demoPath+"/", http.StatusFound)
	at[demoPath+"/"] = p
	return p
}

// ServeHTTP answers what is below the path, where the page's own links lead.
func (p *servedPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if brought(r.Header) {
		http.Error(w, "the page is for this machine, and a proxy brought this request", http.StatusNotFound)
		return
	}
	routes, err := p.open()
	if err != nil {
		p.log.Error("there is no page", "cause", err)
		http.Error(w, "there is no page", http.StatusServiceUnavailable)
		return
	}
	routes.ServeHTTP(w, r)
}

// brought reports whether a proxy says that it brought a request. Whom it is of is then not on this machine, where one click is work for a
// millisecond.
func brought(h http.Header) bool {
	return slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"}, func(field string) bool {
		return len(h[field]) > 0
	})
}

// open makes the page, unless it is there.
func (p *servedPage) open() (http.Handler, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("the service stops")
	}
	if p.page != nil {
		return p.routes, nil
	}
	store := smallStore()
	page, err := demo.New(store, &demo.Options{OwnStore: smallStore, CheckURL: p.checkURL, Log: p.log})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	p.store, p.page, p.routes = store, page, http.StripPrefix(demoPath, page)
	return p.routes, nil
}

// close ends what the page shows; later it is refused.
func (p *servedPage) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed = true; p.page == nil {
		return
	}
	p.page.Close()
	if err := p.store.Close(); err != nil {
		p.log.Warn("the page's store", "cause", err)
	}
}
