package admin

import "time"

// Status is the state of an instance and of its store.
type Status struct {
	Version     string       `json:"version"`
	Instance    string       `json:"instance"`
	StartedAt   time.Time    `json:"started_at"`
	Now         time.Time    `json:"now"`
	Caller      Caller       `json:"caller"`
	Keys        string       `json:"keys"` // hash or clear
	Enforcement string       `json:"enforcement"`
	Config      ConfigState  `json:"config"`
	Store       StoreState   `json:"store"`
	Outages     []Outage     `json:"outages"`
	Memory      *MemoryState `json:"memory,omitempty"`
	Leases      *LeaseState  `json:"leases,omitempty"`
}

// Caller is the client of a request.
type Caller struct {
	Name   string   `json:"name"`
	Scopes []string `json:"scopes"`
}

// ConfigState is the state of the configuration.
type ConfigState struct {
	Generation uint64    `json:"generation"`
	Since      time.Time `json:"since"`
	File       string    `json:"file"`
	Error      string    `json:"error,omitempty"`
	Restart    []string  `json:"restart_required,omitempty"`
}

// StoreState is the availability of the store.
type StoreState struct {
	Name      string  `json:"name"`
	Shared    bool    `json:"shared"`
	Available bool    `json:"available"`
	Reason    string  `json:"reason,omitempty"`
	CheckMS   float64 `json:"check_ms"`
	Nodes     []Node  `json:"nodes"` // unavailable nodes
}

// Node is a node of the store that is unavailable.
type Node struct {
	Node   string    `json:"node"`
	Reason string    `json:"reason"`
	Since  time.Time `json:"since"`
}

// Outage is a change of the availability of a node.
type Outage struct {
	Time      time.Time `json:"time"`
	Node      string    `json:"node"`
	Available bool      `json:"available"`
	Reason    string    `json:"reason"`
}

// MemoryState is the size of a store in memory.
type MemoryState struct {
	Keys       int    `json:"keys"`
	Bytes      int64  `json:"bytes"`
	Overflowed uint64 `json:"overflowed"`
}

// LeaseState has the counts of a store with leases.
type LeaseState struct {
	Keys       int   `json:"keys"`
	Units      int64 `json:"units"`
	Stranded   int64 `json:"stranded"`
	Decisions  int64 `json:"decisions"`
	StoreCalls int64 `json:"store_calls"`
	Failed     int64 `json:"failed"`
	Waits      int64 `json:"waits"`
}

// Policies are the policies in effect.
type Policies struct {
	Generation uint64   `json:"generation"`
	Policies   []Policy `json:"policies"`
}

// Policy is one policy.
type Policy struct {
	Name           string          `json:"name"`
	Limits         []PolicyLimit   `json:"limits"`
	Replaced       bool            `json:"replaced,omitempty"` // by an override in the store
	Key            string          `json:"key"`
	OnStoreError   string          `json:"on_store_error"`
	Mode           string          `json:"mode"` // on, shadow or partial
	Enforce        string          `json:"enforce"`
	Lease          *PolicyLease    `json:"lease,omitempty"`
	Overrides      []NamedOverride `json:"overrides"`
	OverridesTotal int             `json:"overrides_total"`
	Routes         []int           `json:"routes"`
}

// PolicyLimit is a limit of a policy.
type PolicyLimit struct {
	Limit     string `json:"limit"`
	Algorithm string `json:"algorithm"`
	Capacity  int64  `json:"capacity"`
}

// PolicyLease are the settings of a policy for leases.
type PolicyLease struct {
	Share string `json:"share"`
	TTL   int64  `json:"ttl_ms"`
}

// NamedOverride is an override in the configuration.
type NamedOverride struct {
	Target string   `json:"target"`
	Limits []string `json:"limits"`
}

// Config is the effective configuration.
type Config struct {
	Generation uint64    `json:"generation"`
	Since      time.Time `json:"since"`
	File       string    `json:"file"`
	Text       string    `json:"text"` // as YAML, without secrets
	Settings   []Setting `json:"settings"`
}

// Setting is one setting.
type Setting struct {
	Path   string `json:"path"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// History has the last configurations that took effect, the latest first.
type History struct {
	Configurations []Applied `json:"configurations"`
}

// Applied is a configuration that took effect.
type Applied struct {
	Generation uint64     `json:"generation"`
	Since      time.Time  `json:"since"`
	Diff       []DiffLine `json:"diff"` // from the one before
}

// DiffLine is one line of a difference.
type DiffLine struct {
	Op   string `json:"op"` // +, - or a space
	Line string `json:"line"`
}
