package storeopen

import (
	"crypto/rand"
	"net/url"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore"
)

// scratchTimeout is the timeout of a call to a temporary store, unless the URL sets
// another. It is long because the caller waits for the result even if the server is
// busy.
const scratchTimeout = 10 * time.Second

// OpenTemporary opens a temporary store in a random namespace, whose data is removed
// when the store is closed. The store has no fallback: if a decision fails, it returns
// an error. OpenTemporary returns an error for a URL that sets a namespace or a layout,
// because that namespace may contain other data.
func OpenTemporary(rawURL string) (headgate.Store, error) {
	if FolderOf(rawURL) != "" {
		return nil, &Error{memory, "remove the folder: a temporary store is in memory only, and the folder is not changed", nil}
	}
	if !Networked(rawURL) {
		return openBare(rawURL, "", nil)
	}
	_, query, _ := strings.Cut(rawURL, "?")
	params, _ := url.ParseQuery(query) // invalid parameters are reported when the store is opened
	for _, name := range []string{"namespace", "layout"} {
		if params.Has(name) {
			return nil, &Error{Name(rawURL), "remove the parameter " + name + ": a temporary namespace is used and removed afterwards", nil}
		}
	}
	return openBare(rawURL, "scratch-"+rand.Text(), nil)
}

func redisOptions(scratch string, observer headgate.StoreObserver) *redisstore.Options {
	o := &redisstore.Options{}
	if clock, ok := observer.(ClockObserver); ok {
		o.OnClockSetBack = clock.ObserveClockSetBack
	}
	if scratch != "" {
		o.Namespace, o.Ephemeral, o.Timeout = scratch, true, scratchTimeout
	}
	return o
}
