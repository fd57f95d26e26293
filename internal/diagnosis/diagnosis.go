// Package diagnosis defines what a check of a store reports. The stores export its types under their own names.
package diagnosis

// Finding is the result of one check of a store. It contains no password.
type Finding struct {
	Check  string `json:"check"` // the name of the check: connection, version, eviction …
	Level  Level  `json:"level"`
	Says   string `json:"says"`             // the state that was found, and its cost
	Advice string `json:"advice,omitempty"` // how to fix it; empty if nothing needs a fix
}

// Level is the severity of a [Finding].
type Level string

// The levels of a finding.
const (
	Fine    Level = "ok"
	Warning Level = "warning" // decisions work, at a cost that the finding names
	Failing Level = "error"   // decisions fail, or will fail
)
