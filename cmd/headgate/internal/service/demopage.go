package service

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/demo"
	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
	"github.com/headgate/headgate/memstore"
)

// demoPath is the path of the page on the HTTP listener.
const demoPath = "/demo"

// NewPageStore returns a small store in memory for the page of headgate demo.
func NewPageStore() headgate.Store { return memstore.New(&memstore.Options{MaxEntries: 1000}) }

// demoPage is the page of “headgate demo” on the HTTP listener. It has a small store of
// its own, so that it does not consume units of the service. It is created at the first
// request.
type demoPage struct {
	checkURL string
	log      *slog.Logger

	mu     sync.Mutex
	store  headgate.Store
	page   *demo.Handler
	routes http.Handler
	closed bool
}

// ServeHTTP serves the paths below demoPath. It rejects requests that a proxy
// forwarded: the client may be on another machine, and one click costs the server a
// millisecond of CPU time.
func (p *demoPage) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if localaccess.Proxied(r.Header) {
		http.Error(w, "the demo page does not accept requests from a proxy", http.StatusNotFound)
		return
	}
	routes, err := p.open()
	if err != nil {
		p.log.Error("demo page failed", "error", err)
		http.Error(w, "demo page not available", http.StatusServiceUnavailable)
		return
	}
	routes.ServeHTTP(w, r)
}

// open returns the handler of the page. The first call creates it.
func (p *demoPage) open() (http.Handler, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errors.New("service is stopping")
	}
	if p.page != nil {
		return p.routes, nil
	}
	store := NewPageStore()
	page, err := demo.New(store, &demo.Options{OwnStore: NewPageStore, CheckURL: p.checkURL, Log: p.log})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	p.store, p.page, p.routes = store, page, http.StripPrefix(demoPath, page)
	return p.routes, nil
}

// close ends the streams of the page. Later requests are rejected.
func (p *demoPage) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed = true; p.page == nil {
		return
	}
	p.page.Close()
	if err := p.store.Close(); err != nil {
		p.log.Warn("closing demo store failed", "error", err)
	}
}
