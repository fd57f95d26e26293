// Package conformance has test vectors that any rate limiter can run: a limit, a
// timeline of requests, and the exact answers.
//
// The vectors are JSON files for use in any language; README.md documents them. This
// package is for Go programs: Load reads the embedded files, and Play runs a vector on
// a limiter.
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

// File is one file of vectors.
type File struct {
	Name    string   `json:"-"`              // its path, as in handworked/token_bucket.json
	About   string   `json:"about"`          // what the file covers
	Seed    uint64   `json:"seed,omitempty"` // of a generated file
	Vectors []Vector `json:"vectors"`
}

// Vector is a timeline of requests to a limiter without any state, and the answer to
// each.
type Vector struct {
	Name    string `json:"name"`
	Comment string `json:"comment,omitempty"`

	// Algorithm and Limit apply to all keys of the vector. If requests are charged to
	// several limits, both are empty and Limits has the limits.
	Algorithm string       `json:"algorithm,omitempty"`
	Limit     *Limit       `json:"limit,omitempty"`
	Limits    []NamedLimit `json:"limits,omitempty"`

	Timeline []Step   `json:"timeline"`
	Answers  []Answer `json:"answers"` // one for each step
}

// Limit is a limit as text and as numbers.
type Limit struct {
	Text     string `json:"text"`      // for example 10/s burst 20
	Rate     int64  `json:"rate"`      // L, units
	PeriodUS int64  `json:"period_us"` // P, µs
	Capacity int64  `json:"capacity"`  // B, units; windows count up to Rate instead
}

// NamedLimit is a limit to which checks refer.
type NamedLimit struct {
	Name      string `json:"name"`
	Algorithm string `json:"algorithm"`
	Limit
}

// Step is one request.
type Step struct {
	TimeUS  int64  `json:"t_us"` // µs since the epoch
	Key     string `json:"key,omitempty"`
	Verb    string `json:"verb"` // take, peek, refund or reset
	Cost    int64  `json:"cost,omitempty"`
	Comment string `json:"comment,omitempty"`

	// Checks are the charges of a request under several limits. Key and Cost are then
	// empty.
	Checks []Check `json:"checks,omitempty"`
}

// Check is a charge to one of several limits.
type Check struct {
	Limit string `json:"limit"` // the name of one of the vector's Limits
	Key   string `json:"key"`
	Cost  int64  `json:"cost"`
}

// Answer is the answer to a step: units, and waits in µs that are rounded up.
type Answer struct {
	Allowed      bool     `json:"allowed"`
	Limit        int64    `json:"limit"`
	Remaining    int64    `json:"remaining"`
	RetryAfterUS int64    `json:"retry_after_us"`
	ResetAfterUS int64    `json:"reset_after_us"`
	DelayUS      int64    `json:"delay_us"`
	Never        bool     `json:"never"`
	DeniedBy     []string `json:"denied_by,omitempty"` // the names of the limits that denied, where there are several
}

// Load reads all files, the handworked ones first. It returns an error only if a file
// is damaged.
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

// Play sends the vector's requests to a limiter, in order, and returns an error that
// describes the first wrong answer. The limiter must have no state for the vector's
// keys. Play stops at the first error of decide and returns it.
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

// String returns a short form of the step.
func (s Step) String() string {
	if s.Checks != nil {
		return fmt.Sprintf("%s at %d µs: %+v", s.Verb, s.TimeUS, s.Checks)
	}
	return fmt.Sprintf("%s %d of %q at %d µs", s.Verb, s.Cost, s.Key, s.TimeUS)
}
