package bench

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Memory is what a limiter keeps for a number of keys.
type Memory struct {
	Heap int64 // growth of the live heap, in bytes
	RSS  int64 // growth of the process's resident memory, in bytes, after freed memory went back to the system
}

// MeasureMemory makes the peer's limiter, asks for every key once and says what is kept. The process must hold nothing else.
func MeasureMemory(p Peer, keys int) (Memory, error) {
	heap, rss := settled()
	l, err := p.New(Budget, keys)
	if err != nil {
		return Memory{}, fmt.Errorf("bench: %s: %w", p.Name, err)
	}
	Fill(l, p, keys, 0)
	heapAfter, rssAfter := settled()
	runtime.KeepAlive(l)
	return Memory{Heap: heapAfter - heap, RSS: rssAfter - rss}, nil
}

// settled is the live heap and the resident memory without garbage.
func settled() (heap, rss int64) {
	runtime.GC() // runs finalizers of what the first one finds
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	rss, _ = RSS()
	return int64(m.HeapAlloc), rss
}
