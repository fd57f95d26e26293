//go:build !race

package respapi

import (
	"testing"

	"github.com/headgate/headgate/memstore"
)

// TestRequestsDoNotAllocate: parsing, decision and reply allocate nothing.
func TestRequestsDoNotAllocate(t *testing.T) {
	store := memstore.New(nil)
	defer store.Close()
	c := New(mustEngine(t, store, policies), nil).newClient(t)
	for name, input := range map[string]string{
		"CL.THROTTLE":         request("CL.THROTTLE", "some:key", "15", "30", "60"),
		"CL.THROTTLE, refund": request("cl.throttle", "other:key", "15", "30", "60", "-1"),
		"THROTTLE":            request("THROTTLE", "some:key", "15", "30", "60", "1"),
		"HG.CHECK":            request("HG.CHECK", "api", "some:key", "1"),
		"inline":              "CL.THROTTLE some:key 15 30 60\r\n",
		"PING":                request("PING"),
		"ECHO":                request("ECHO", "some text"),
		"a denial":            request("CL.THROTTLE", "k", "0", "1", "60"),
		"quantity 0":          request("CL.THROTTLE", "k", "0", "1", "60", "0"),
	} {
		in := []byte(input + input + input)
		allocs := testing.AllocsPerRun(200, func() {
			if n := c.w.serve(c.s, in); n != len(in) {
				t.Fatalf("%s: %d bytes of %d were run", name, n, len(in))
			}
			c.w.out = c.w.out[:0]
		})
		if allocs != 0 {
			t.Errorf("%s: %v allocations in 3 requests, want none", name, allocs)
		}
	}
}

func BenchmarkRequest(b *testing.B) {
	store := memstore.New(nil)
	defer store.Close()
	c := New(mustEngine(b, store, policies), nil).newClient(b)
	for name, input := range map[string]string{
		"CL.THROTTLE": request("CL.THROTTLE", "key:000000012345", "15", "30", "60"),
		"HG.CHECK":    request("HG.CHECK", "api", "key:000000012345"),
		"PING":        request("PING"),
	} {
		b.Run(name, func(b *testing.B) {
			in := []byte(input)
			b.ReportAllocs()
			for b.Loop() {
				c.w.serve(c.s, in)
				c.w.out = c.w.out[:0]
			}
		})
	}
}
