package storeopen

import (
	"crypto/rand"
	"net/url"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore"
)

// scratchTimeout is the call timeout of a temporary store, unless the URL sets one.
// It is long because the caller waits for the result even if the server is busy.
const scratchTimeout = 10 * time.Second

// OpenTemporary opens a store for a single use, in a random namespace that is removed
// when the store is closed. There is no fallback: every failed decision is an error.
// It refuses a URL with a namespace or layout, because the namespace may contain
// other data.
func OpenTemporary(rawURL string) (headgate.Store, error) {
	if !Networked(rawURL) {
		return openBare(rawURL, "")
	}
	_, query, _ := strings.Cut(rawURL, "?")
	params, _ := url.ParseQuery(query) // the store reports invalid parameters
	for _, name := range []string{"namespace", "layout"} {
		if params.Has(name) {
			return nil, &Error{Name(rawURL), "remove the parameter " + name + ": a temporary namespace is used and removed afterwards", nil}
		}
	}
	return openBare(rawURL, "scratch-"+rand.Text())
}

func redisOptions(scratch string) *redisstore.Options {
	if scratch == "" {
		return nil
	}
	return &redisstore.Options{Namespace: scratch, Ephemeral: true, Timeout: scratchTimeout}
}
