package memstore

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/statefile"
)

// savedFolder returns the content of a state file with all kinds of records.
func savedFolder(t testing.TB) []byte {
	folder := t.TempDir()
	s, err := Open(folder, &FolderOptions{Options: Options{MaxEntries: 300}, Sync: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range algo.All() {
		for _, key := range []string{"a", "b"} {
			use(t, s, a.Name, key)
		}
	}
	if _, err := s.SaveDocument(t.Context(), "a", 0, []byte("content")); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	path, err := statefile.Newest(folder)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func use(t testing.TB, s *Store, a headgate.Algorithm, key string) {
	limit := "9/1h"
	if a == headgate.Concurrency {
		limit = "9 concurrent"
	}
	l, err := headgate.New(s, headgate.Policy{Name: "p", Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit(limit)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		_, _ = l.Allow(t.Context(), key)
		if a.CanHold() {
			if _, err := l.Hold(t.Context(), key, 1, time.Hour); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// FuzzStateFile reads arbitrary files: the result is a typed error or a store.
func FuzzStateFile(f *testing.F) {
	whole := savedFolder(f)
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Add([]byte("headgate state 1\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		path := filepath.Join(t.TempDir(), "state-0000000001")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := statefile.Check(path)
		if err != nil {
			return
		}
		if _, keys, err := parseHeader(c.Header); err != nil || keys > 10_000 {
			return // the memory of a large store
		}
		if s, _, _, err := restoreFile(c, 100, 1<<20, time.Now().UnixMicro()); err == nil {
			useAll(t, s)
		}
	})
}

// useAll uses a restored store.
func useAll(t *testing.T, s *Store) {
	for _, a := range algo.All() {
		use(t, s, a.Name, "a")
	}
	s.Stats()
}

// FuzzStateRecords applies arbitrary records, as if their checksum were right: the result
// is an error or a store that can be used.
func FuzzStateRecords(f *testing.F) {
	for content := savedFolder(f)[len("headgate state 1\n"):]; len(content) > statefile.FrameHeader; {
		n := statefile.FrameHeader + int(binary.LittleEndian.Uint32(content[4:]))
		f.Add(content[statefile.FrameHeader:n])
		content = content[n:]
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		p := newReplayer(100, hashKey{1, 2})
		if p.apply(payload) != nil {
			return
		}
		if s, err := p.finish(100, 1<<20, time.Now().UnixMicro()); err == nil {
			useAll(t, s)
			for i := range s.holds.shards {
				s.dropExpired(&s.holds.shards[i], nil, 1<<50, nil, math.MaxInt, unlimited)
			}
		}
	})
}
