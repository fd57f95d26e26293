package config

import (
	"bytes"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"go.yaml.in/yaml/v4"
)

// MaxHistory is the number of configurations that a [History] keeps.
const MaxHistory = 20

// maxDiffBytes is the maximum size of a difference.
const maxDiffBytes = 64 << 10

// History keeps the last configurations that took effect, without secrets. The zero value
// is ready to use, and may be used concurrently.
type History struct {
	mu      sync.Mutex
	last    []byte    // text of the latest configuration
	applied []Applied // the latest last
}

// Applied is a configuration that took effect.
type Applied struct {
	Generation uint64
	Since      time.Time
	Diff       []DiffLine // difference from the one before; empty for the first
}

// DiffLine is one line of a difference.
type DiffLine struct {
	Op   byte // '+', '-' or ' '
	Line string
}

// Add adds a configuration with its status.
func (h *History) Add(c *Config, status Status) {
	text := c.plain()
	h.mu.Lock()
	defer h.mu.Unlock()
	one := Applied{Generation: status.Generation, Since: status.Since}
	if h.last != nil {
		one.Diff = diffLines(h.last, text)
	}
	if h.last = text; len(h.applied) == MaxHistory {
		h.applied = h.applied[1:]
	}
	h.applied = append(h.applied, one)
}

// All returns the configurations, the latest first.
func (h *History) All() []Applied {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Applied, 0, len(h.applied))
	for i := range h.applied {
		all = append(all, h.applied[len(h.applied)-1-i])
	}
	return all
}

// plain returns the configuration as [Config.Print] writes it, but without the origins,
// which change with every line that is added.
func (c *Config) plain() []byte {
	root := c.node(reflect.ValueOf(&c.File).Elem(), "")
	removeComments(root)
	var text bytes.Buffer
	if err := write(&text, root); err != nil {
		return []byte(err.Error() + "\n")
	}
	return text.Bytes()
}

func removeComments(n *yaml.Node) {
	n.LineComment = ""
	for _, inner := range n.Content {
		removeComments(inner)
	}
}

// diffLines returns the lines that differ, with three lines of context. The line … stands
// for lines that are left out.
func diffLines(before, after []byte) (lines []DiffLine) {
	text := string(diff.Diff("before", before, "after", after))
	if len(text) > maxDiffBytes {
		text = text[:strings.LastIndexByte(text[:maxDiffBytes], '\n')+1]
	}
	_, text, _ = strings.Cut(text, "\n+++ after\n")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "@@") && len(lines) > 0 {
			lines = append(lines, DiffLine{' ', "…"})
		}
		if line = strings.TrimSuffix(line, "\n"); line != "" && strings.IndexByte("+- ", line[0]) >= 0 {
			lines = append(lines, DiffLine{line[0], line[1:]})
		}
	}
	return lines
}
