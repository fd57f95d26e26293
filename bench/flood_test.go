package bench

import "testing"

// The busy keys are in the store before the flood has filled it. A key that first
// appears when the store is full would share an overflow bucket.
func TestFloodDoesNotChangeDecisionsOnBusyKeys(t *testing.T) {
	f := Flood{Requests: 1_000_000, Entries: 10_000, Bytes: 640_000, Busy: 50, Every: 100}
	r, err := f.Run()
	if err != nil {
		t.Fatal(err)
	}
	if r.Differing != 0 {
		t.Errorf("busy requests decided differently: got %d of %d, want 0; the first: %s", r.Differing, r.Busy, r.First)
	}
	if r.Busy != f.Requests/f.Every || r.Random != f.Requests {
		t.Errorf("requests: got %d random and %d busy, want %d and %d", r.Random, r.Busy, f.Requests, f.Requests/f.Every)
	}
	if r.Allowed == 0 || r.Allowed == r.Busy {
		t.Errorf("busy requests allowed: got %d of %d, want allowed and denied requests for a meaningful comparison", r.Allowed, r.Busy)
	}
	if r.Stats.Bytes > int64(f.Bytes) {
		t.Errorf("bytes in a store with a limit of %d: got %d", f.Bytes, r.Stats.Bytes)
	}
	if maxKeys := f.Entries * 5 / 4; r.Stats.Keys > maxKeys {
		t.Errorf("keys in a store with a limit of %d: got %d, want at most %d", f.Entries, r.Stats.Keys, maxKeys)
	}
}
