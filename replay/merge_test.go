package replay

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// pieceOf returns a parsed piece of requests in input order.
func pieceOf(requests []request) *piece {
	p := newPiece()
	p.start()
	for i, q := range requests {
		key := p.keys.intern(maphash.String(hashSeed, q.key), []byte(q.key))
		p.add(record{at: q.at, cost: q.cost, key: key, line: uint32(i)})
	}
	p.finish()
	return p
}

// randomRequests returns requests that are out of time order by at most disorder µs.
func randomRequests(r *rand.Rand, n int, disorder int64) []request {
	requests := make([]request, n)
	for i := range requests {
		at := int64(i/3) + disorder
		if disorder > 0 {
			at -= r.Int64N(disorder)
		}
		key := fmt.Sprint("key ", r.IntN(50))
		requests[i] = request{at: at, cost: int64(i), key: key, hash: maphash.String(hashSeed, key)} // cost is an ID
	}
	return requests
}

func walk(t *testing.T, m *merger) (all []request) {
	t.Helper()
	for batch := make([]request, 0, 7); ; {
		var err error
		if batch, err = m.next(batch[:0]); err != nil {
			t.Fatal(err)
		}
		if len(batch) == 0 {
			return all
		}
		all = append(all, batch...)
	}
}

func inOrder(requests []request) []request {
	sorted := slices.Clone(requests)
	slices.SortStableFunc(sorted, func(a, b request) int { return int(a.at - b.at) })
	return sorted
}

// TestMergeIsAStableSort: pieces in memory or in the file merge like a stable sort by
// time.
func TestMergeIsAStableSort(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, disorder := range []int64{0, 1, 40, 2000} {
		for _, spillEvery := range []int{0, 1, 3} {
			t.Run(fmt.Sprintf("disorder %d spill %d", disorder, spillEvery), func(t *testing.T) {
				requests := randomRequests(r, 3000, disorder)
				g := gatherer{opts: &Options{Memory: MinMemory}, spill: spill{dir: t.TempDir()}}
				defer g.spill.close()
				for i := 0; i*100 < len(requests); i++ {
					g.run.add(pieceOf(requests[i*100 : (i+1)*100]))
					if spillEvery > 0 && i%spillEvery == 0 {
						if err := g.spill.add(&g.run); err != nil {
							t.Fatal(err)
						}
					}
				}
				if err := g.settle(); err != nil {
					t.Fatal(err)
				}
				m, err := g.merger()
				if err != nil {
					t.Fatal(err)
				}
				if got, want := walk(t, m), inOrder(requests); !slices.Equal(got, want) {
					t.Errorf("%d requests came out otherwise than by a stable sort", len(got))
				}
			})
		}
	}
}

func TestOutOfOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, disorder := range []int64{0, 1, 5, 300} {
		requests := randomRequests(r, 900, disorder)
		want, latest := int64(0), int64(noInstant)
		for _, q := range requests {
			if q.at < latest {
				want++
			}
			latest = max(latest, q.at)
		}
		got, latest := int64(0), int64(noInstant)
		for part := range slices.Chunk(requests, 70) {
			p := pieceOf(part)
			got += p.outOfOrder(latest)
			latest = max(latest, p.records[len(p.records)-1].at)
		}
		if got != want {
			t.Errorf("disorder %d: %d out of order, want %d", disorder, got, want)
		}
	}
}

func TestTemporaryFileIsRemoved(t *testing.T) {
	dir := t.TempDir()
	s := spill{dir: dir}
	var r run
	r.add(pieceOf([]request{{at: 1, key: "a"}}))
	if err := s.add(&r); err != nil {
		t.Fatal(err)
	}
	if filepath.Dir(s.file.Name()) != dir || s.bytes == 0 || len(r.blocks) != 0 {
		t.Errorf("%d bytes were spilled to %s, %d blocks are in memory; want some in %s, 0", s.bytes, s.file.Name(), len(r.blocks), dir)
	}
	s.close()
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("%d files are left behind", len(files))
	}
}
