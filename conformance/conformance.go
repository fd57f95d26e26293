// Package conformance provides test vectors for any rate limiter. A test vector is a
// limit, a timeline of requests, and the exact answer to each request.
//
// The vectors are JSON files for use in any language; README.md documents their format.
// This package is for Go programs: Load reads the files, which are embedded, and Play
// sends the requests of a vector to a limiter.
package conformance

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
)

//go:embed handworked/*.json generated/*.json
var files embed.FS

// File is one file of test vectors.
type File struct {
	Name    string   `json:"-"`              // path of the file, such as handworked/token_bucket.json
	About   string   `json:"about"`          // description of what the file covers
	Seed    uint64   `json:"seed,omitempty"` // seed of the random numbers; only in generated files
	Vectors []Vector `json:"vectors"`
}

// Vector is a timeline of requests to a limiter that has no state at first, and the
// answer to each request.
type Vector struct {
	Name    string `json:"name"`
	Comment string `json:"comment,omitempty"`

	// Algorithm and Limit apply to all keys of the vector. If requests are charged to
	// several limits, Algorithm and Limit are empty, and Limits lists the limits.
	Algorithm string       `json:"algorithm,omitempty"`
	Limit     *Limit       `json:"limit,omitempty"`
	Limits    []NamedLimit `json:"limits,omitempty"`

	// OnExpiry and ExcessPolicy are the settings for holds: keep or release, and owe or
	// clip. They are empty if the timeline has no holds.
	OnExpiry     string `json:"on_expiry,omitempty"`
	ExcessPolicy string `json:"over,omitempty"`

	Timeline []Step   `json:"timeline"`
	Answers  []Answer `json:"answers"` // the answer to each step of Timeline
}

// Limit is a limit, both as text and as numbers.
type Limit struct {
	Text     string `json:"text"`      // such as 10/s burst 20
	Rate     int64  `json:"rate"`      // units per period (L)
	PeriodUS int64  `json:"period_us"` // length of the period in µs (P); 0 if the limit has a calendar
	Capacity int64  `json:"capacity"`  // capacity of a bucket in units (B); windows allow Rate units instead

	// EdgesUS are the edges between the windows of a calendar, from the start of the
	// window of the first step to the end of that of the last step, in µs since the
	// epoch.
	EdgesUS []int64 `json:"edges_us,omitempty"`
}

// NamedLimit is a limit with a name, to which the Checks of a vector refer.
type NamedLimit struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Limit
}

// Step is one request.
type Step struct {
	TimeUS  int64  `json:"t_us"` // time of the request in µs since the epoch
	Key     string `json:"key,omitempty"`
	Verb    string `json:"verb"` // take, peek, refund or reset; hold, commit, extend, cancel, debit or up_to
	Cost    int64  `json:"cost,omitempty"`
	ID      string `json:"id,omitempty"`     // id of the hold
	TTLUS   int64  `json:"ttl_us,omitempty"` // time until the hold expires, in µs; for hold and extend
	Actual  int64  `json:"actual,omitempty"` // actual cost; for commit
	Comment string `json:"comment,omitempty"`

	// Limit overrides the limit of the vector for this request. The key keeps its state
	// from before the change.
	Limit *Limit `json:"limit,omitempty"`

	// Checks are the charges of a request that is charged to several limits. Key and
	// Cost are then empty.
	Checks []Check `json:"checks,omitempty"`
}

// Check is the charge of a request to one limit and key.
type Check struct {
	Limit string `json:"limit"` // the Name of an element of Vector.Limits
	Key   string `json:"key"`
	Cost  int64  `json:"cost"`
}

// Answer is the expected answer to a step. Limit and Remaining are in units; the waits
// are in µs, rounded up.
type Answer struct {
	Allowed      bool     `json:"allowed"`
	Limit        int64    `json:"limit"`
	Remaining    int64    `json:"remaining"`
	RetryAfterUS int64    `json:"retry_after_us"`
	ResetAfterUS int64    `json:"reset_after_us"`
	DelayUS      int64    `json:"delay_us"`
	Never        bool     `json:"never"`
	DeniedBy     []string `json:"denied_by,omitempty"` // names of the limits that denied, if the step has Checks
	Granted      int64    `json:"granted,omitempty"`   // units that up_to spent
	Replayed     bool     `json:"replayed,omitempty"`  // whether the operation had been executed before
	Error        string   `json:"error,omitempty"`     // unknown_hold, expired_hold or conflict; other fields are zero
}

// Load reads all files, first those in the folder handworked. It returns an error only
// if an embedded file is invalid.
func Load() ([]File, error) {
	var loaded []File
	for _, folder := range []string{"handworked", "generated"} {
		entries, err := fs.ReadDir(files, folder)
		if err != nil {
			return nil, fmt.Errorf("conformance: read %s: %w", folder, err)
		}
		for _, e := range entries {
			f, err := load(path.Join(folder, e.Name()))
			if err != nil {
				return nil, err
			}
			loaded = append(loaded, f)
		}
	}
	return loaded, nil
}

func load(name string) (File, error) {
	text, err := files.ReadFile(name)
	if err != nil {
		return File{}, fmt.Errorf("conformance: read %s: %w", name, err)
	}
	f := File{Name: name}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&f); err != nil {
		return File{}, fmt.Errorf("conformance: parse %s: %w", name, err)
	}
	for _, v := range f.Vectors {
		if len(v.Timeline) != len(v.Answers) {
			return File{}, fmt.Errorf("conformance: %s: %s has %d steps and %d answers", name, v.Name, len(v.Timeline), len(v.Answers))
		}
	}
	return f, nil
}

// Play calls decide with each request of the vector, in order, and compares the
// answers. It returns an error that describes the first wrong answer, or the first
// error of decide. The limiter behind decide must have no state for the keys of the
// vector.
func (v *Vector) Play(decide func(Step) (Answer, error)) error {
	for i, s := range v.Timeline {
		got, err := decide(s)
		if err != nil {
			return fmt.Errorf("%s: step %d (%s): %w", v.Name, i+1, s, err)
		}
		if want := v.Answers[i]; !got.equals(want) {
			return fmt.Errorf("%s: step %d (%s):\n got %+v\nwant %+v\n%s", v.Name, i+1, s, got, want, s.Comment)
		}
	}
	return nil
}

func (a Answer) equals(b Answer) bool {
	same := slices.Equal(a.DeniedBy, b.DeniedBy)
	a.DeniedBy, b.DeniedBy = nil, nil
	return same && reflect.DeepEqual(a, b)
}

// String returns the step as a short text.
func (s Step) String() string {
	if s.Checks != nil {
		return fmt.Sprintf("%s at %d µs: %+v", s.Verb, s.TimeUS, s.Checks)
	}
	return fmt.Sprintf("%s %d of %q at %d µs", s.Verb, s.Cost, s.Key, s.TimeUS)
}
