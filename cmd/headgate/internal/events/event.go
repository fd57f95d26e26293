package events

import (
	"encoding/json"
	"time"
)

// The types of events.
const (
	NearLimit        = "limit.near"        // a key has used the share warn_at of a limit
	Exhausted        = "limit.exhausted"   // a limit has denied a request
	Banned           = "key.banned"        // a key was banned
	StoreUnavailable = "store.unavailable" // the circuit breaker of the store has opened
	StoreRecovered   = "store.recovered"
)

// Event is one event. Its JSON form is the body of a webhook.
type Event struct {
	Type string    `json:"type"`
	Time time.Time `json:"timestamp"`
	Data Data      `json:"data"`
}

// Data are the details of an event. A field that does not apply is absent.
type Data struct {
	Instance string `json:"instance"`          // host name of the instance that tells
	Policy   string `json:"policy,omitempty"`  // name of the policy
	Limit    string `json:"limit,omitempty"`   // text of the limit
	Key      string `json:"key,omitempty"`     // key or its hash; see [Options.Keys]
	Warn     string `json:"warn_at,omitempty"` // share that the key has used
	// Remaining and Capacity are those of the decision that caused the event.
	Remaining *int64 `json:"remaining,omitempty"`
	Capacity  int64  `json:"capacity,omitempty"`
	// Ends is the time at which the window of the event ends: until then, there is no
	// further event of this type for the key and the limit. For a ban, it is its end.
	Ends *time.Time `json:"ends,omitempty"`
	Ban  int64      `json:"ban,omitempty"` // number of this ban of the key, from 1
	// Shadow is true if the policy is in shadow mode for the key, so that no request was
	// denied.
	Shadow bool   `json:"shadow,omitempty"`
	Node   string `json:"node,omitempty"`   // server of the store
	Reason string `json:"reason,omitempty"` // reason of the store's failure
}

// body returns the event as JSON.
func (e *Event) body() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic("events: " + err.Error()) // cannot happen: texts and numbers can always be encoded
	}
	return b
}
