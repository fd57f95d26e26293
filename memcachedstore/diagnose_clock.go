package memcachedstore

import (
	"errors"
	"fmt"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// clockWarning returns the warning that the local clock is ahead or behind; text
// describes the difference.
func clockWarning(text string) Finding {
	return Finding{
		Check: "clock", Level: Warning, Says: text + "; the clock of each process decides",
		Advice: "run NTP on all machines; see Clocks in docs/operate/stores.md",
	}
}

// serverClock compares the time in the statistics of a server with the local clock at
// the times at which they were requested and received. The server reads its clock once a
// second and drops fractions, also of the time at which it started. So the true time is
// from 1 s before to 3 s after the reported time.
func serverClock(stats map[string]string, sent, received time.Time) Finding {
	reported := time.Unix(number(stats, "time"), 0)
	ahead, behind := sent.Sub(reported.Add(3*time.Second)), reported.Add(-time.Second).Sub(received)
	switch {
	case ahead > 0:
		return clockWarning(fmt.Sprintf("at least %v ahead of the server's clock", ahead.Round(time.Millisecond)))
	case behind > 0:
		return clockWarning(fmt.Sprintf("at least %v behind the server's clock", behind.Round(time.Millisecond)))
	default:
		return Finding{Check: "clock", Level: Fine, Says: "within 3s of the server's clock"}
	}
}

// processClock compares the local clock with the item that the processes of a namespace
// write; see clockWatch.
func processClock(namespace string, servers []string) Finding {
	s, err := New(&Options{Namespace: namespace, Timeout: 5 * time.Second}, servers...)
	if err != nil {
		return finding("clock", err)
	}
	defer s.Close()
	item, err := s.client.Get(s.clocks.key.name())
	local := time.Now().UnixMicro()
	if errors.Is(err, memcache.ErrCacheMiss) {
		return Finding{Check: "clock", Level: Fine, Says: fmt.Sprintf("no process of namespace %q has written its clock in the last hour", s.options.Namespace)}
	}
	if err != nil {
		return finding("clock", classify(err, false))
	}
	read, err := decodeClock(item.Value)
	if err != nil {
		return finding("clock", errForeignValue())
	}
	if ahead := read.aheadOf(local); ahead >= minClockSkew {
		return clockWarning(fmt.Sprintf("at least %v behind the clock of a process of namespace %q", ahead.Round(time.Millisecond), s.options.Namespace))
	}
	return Finding{Check: "clock", Level: Fine, Says: fmt.Sprintf("not behind the clock that a process of namespace %q wrote last", s.options.Namespace)}
}
