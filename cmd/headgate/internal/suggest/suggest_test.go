package suggest_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
)

func TestNearest(t *testing.T) {
	known := []string{"limit", "algorithm", "key", "cost", "max_key_bytes"}
	for _, c := range []struct{ text, want string }{
		{"limit", "limit"},
		{"limits", "limit"},         // insert
		{"limt", "limit"},           // delete
		{"lemit", "limit"},          // change
		{"limti", "limit"},          // swap
		{"algroithmx", "algorithm"}, // swap and insert
		{"LIMIT", "limit"},
		{"maxKeyBytes", "max_key_bytes"},
		{"max-key.bytes", "max_key_bytes"},
		{"kye", "key"}, // one swap
		{"kit", ""},    // two edits from "key", of three bytes
		{"limitings", ""},
		{"", ""},
		{strings.Repeat("l", 1<<20), ""},
	} {
		if got := suggest.Nearest(c.text, known); got != c.want {
			t.Errorf("Nearest(%.20q): got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestNearestPrefersTheClosestThenTheFirst(t *testing.T) {
	if got := suggest.Nearest("keys", []string{"kys", "key", "keyz"}); got != "kys" {
		t.Errorf("got %q, want the first of three names at distance 1, %q", got, "kys")
	}
	if got := suggest.Nearest("keyss", []string{"key", "keys"}); got != "keys" {
		t.Errorf("got %q, want the closest, %q", got, "keys")
	}
}

func TestNearestWithoutNames(t *testing.T) {
	if got := suggest.Nearest("key", nil); got != "" {
		t.Errorf("got %q, want none", got)
	}
}
