package main

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/bench/server"
)

// Every form runs on keys that are there, with one key a call and with many.
func TestFormsRun(t *testing.T) {
	redis, err := server.Redis()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Close() })
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	var out strings.Builder
	for _, n := range []int{1, perCall} {
		if err := (ground{client, 1000}).table(&out, n, 1, time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	if rows := strings.Count(out.String(), "\n| "); rows != 2*(len(forms)+1) {
		t.Errorf("got %d lines of tables, want %d for each of two", rows, len(forms)+1)
	}
}
