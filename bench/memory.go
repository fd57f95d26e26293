package bench

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Memory is the memory that a limiter uses for its keys.
type Memory struct {
	Heap int64 // growth of the live heap in bytes
	RSS  int64 // growth of the resident memory in bytes, after free memory was returned to the OS
}

// MeasureMemory creates a limiter of the peer p, makes one request for each of the keys
// and returns by how much the memory of the process has grown. The process must contain
// no other limiter.
func MeasureMemory(p Peer, keys int) (Memory, error) {
	heap, rss := memoryInUse()
	l, err := p.New(Budget, keys)
	if err != nil {
		return Memory{}, fmt.Errorf("bench: %s: %w", p.Name, err)
	}
	Fill(l, p, keys, 0)
	heapAfter, rssAfter := memoryInUse()
	runtime.KeepAlive(l)
	return Memory{Heap: heapAfter - heap, RSS: rssAfter - rss}, nil
}

// memoryInUse returns the live heap and the resident memory after garbage collection.
func memoryInUse() (heap, rss int64) {
	runtime.GC() // runs the finalizers of the objects that the first collection found
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	rss, _ = RSS()
	return int64(m.HeapAlloc), rss
}
