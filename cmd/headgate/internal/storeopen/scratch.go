package storeopen

import (
	"crypto/rand"
	"net/url"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/redisstore"
)

// scratchTimeout bounds a call of a scratch store, unless the URL says otherwise: whoever uses one waits for its answer, however
// busy the server is.
const scratchTimeout = 10 * time.Second

// OpenScratch is [Open] for a single use: under a namespace that nobody else has, which is removed when the store is closed. There is
// nothing around it, so whatever cannot be decided is an error. A URL that says itself under which keys state lies is refused: what
// is there may be somebody's.
func OpenTemporary(rawURL string) (headgate.Store, error) {
	if !Networked(rawURL) {
		return openBare(rawURL, "")
	}
	_, query, _ := strings.Cut(rawURL, "?")
	params, _ := url.ParseQuery(query) // a store that cannot read them says so
	for _, name := range []string{"namespace", "layout"} {
		if params.Has(name) {
			return nil, &Error{Name(rawURL), "leave out the parameter " + name + ": a namespace of its own is used, and removed afterwards", nil}
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
