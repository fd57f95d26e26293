package bench

import "testing"

// The busy keys are known by the time the flood has filled the store: a key that comes first when it is full has no place.
func TestBusyKeysAreAnsweredAsWithoutTheFlood(t *testing.T) {
	f := Flood{Requests: 1_000_000, Entries: 10_000, Bytes: 640_000, Busy: 50, Every: 100}
	r, err := f.Run()
	if err != nil {
		t.Fatal(err)
	}
	if r.Differing != 0 {
		t.Errorf("busy requests answered otherwise: got %d of %d, want 0; the first: %s", r.Differing, r.Busy, r.First)
	}
	if r.Busy != f.Requests/f.Every || r.Random != f.Requests {
		t.Errorf("requests: got %d random and %d busy, want %d and %d", r.Random, r.Busy, f.Requests, f.Requests/f.Every)
	}
	if r.Admitted == 0 || r.Admitted == r.Busy {
		t.Errorf("busy requests admitted: got %d of %d, want some and not all, or the comparison shows nothing", r.Admitted, r.Busy)
	}
	if r.Stats.Bytes > int64(f.Bytes) {
		t.Errorf("bytes held by a store bounded to %d: got %d", f.Bytes, r.Stats.Bytes)
	}
	if most := f.Entries * 5 / 4; r.Stats.Keys > most {
		t.Errorf("keys in a store bounded to %d: got %d, want at most %d", f.Entries, r.Stats.Keys, most)
	}
}
