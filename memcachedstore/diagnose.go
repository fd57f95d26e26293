package memcachedstore

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/diagnosis"
)

// Finding is the result of one check of [Diagnose]. It contains no password.
type Finding = diagnosis.Finding

// Level is the severity of a [Finding].
type Level = diagnosis.Level

// The levels of a finding.
const (
	Fine    = diagnosis.Fine
	Warning = diagnosis.Warning // decisions work, at a cost that the finding names
	Failing = diagnosis.Failing // decisions fail, or will fail
)

// Diagnose looks at servers of memcached, as [New] takes them, and says what is wrong with them. It makes a few decisions in a
// namespace of its own, which it removes. The error is that of an address that cannot be read; a server that cannot be reached is a
// finding. It takes a dozen round trips for each server, and no longer than ctx or 20 s.
func Diagnose(ctx context.Context, servers ...string) ([]Finding, error) {
	list, err := parseServers(servers)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var all []Finding
	for _, server := range list {
		found := lookAt(ctx, server)
		for i := range found {
			if len(list) > 1 {
				found[i].Says = server.String() + ": " + found[i].Says
			}
		}
		all = append(all, found...)
	}
	if slices.ContainsFunc(all, func(f Finding) bool { return f.Level == Failing }) {
		return all, nil
	}
	return append(all, tryOut(ctx, servers)...), nil
}

// lookAt asks one server what it is.
func lookAt(ctx context.Context, server net.Addr) []Finding {
	conn, err := new(net.Dialer).DialContext(ctx, server.Network(), server.String())
	if err != nil {
		return []Finding{finding("connection", failure(err, false))}
	}
	defer conn.Close()
	if until, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(until)
	}
	about, err := stats(conn)
	if err != nil {
		return []Finding{finding("connection", failure(err, false))}
	}
	return []Finding{
		{Check: "version", Level: Fine, Says: "memcached " + about["version"]},
		memory(about), eviction(about), itemSize(about), numbers(about),
	}
}

// finding returns the finding of a failed check.
func finding(check string, err error) Finding {
	return diagnosis.OfError(check, Failing, err, "headgate: memcached: ")
}

// mostStats bounds what is read of a server that may be none.
const mostStats = 1 << 16

// stats are the lines STAT name value of the two commands that say what is here, those of the second with an = before the name.
func stats(conn net.Conn) (map[string]string, error) {
	if _, err := io.WriteString(conn, "stats\r\nstats settings\r\n"); err != nil {
		return nil, err
	}
	about, ends := map[string]string{}, 0
	lines := bufio.NewScanner(io.LimitReader(conn, mostStats))
	for ends < 2 && lines.Scan() {
		line := strings.TrimSuffix(lines.Text(), "\r")
		stat, isStat := strings.CutPrefix(line, "STAT ")
		switch {
		case line == "END":
			ends++
		case isStat:
			name, value, _ := strings.Cut(stat, " ")
			about[strings.Repeat("=", ends)+name] = value
		default:
			return nil, fmt.Errorf("memcache: unexpected answer %.60q", line)
		}
	}
	if ends < 2 {
		return nil, errors.Join(io.ErrUnexpectedEOF, lines.Err())
	}
	return about, nil
}

func number(about map[string]string, name string) int64 {
	n, _ := strconv.ParseInt(about[name], 10, 64)
	return n
}

func memory(about map[string]string) Finding {
	used, most := number(about, "bytes"), number(about, "limit_maxbytes")
	return Finding{Check: "memory", Level: Fine, Says: fmt.Sprintf("%.1f of %.1f MB used, %d items", float64(used)/1e6, float64(most)/1e6, number(about, "curr_items"))}
}

func eviction(about map[string]string) Finding {
	const cost = "whoever's key goes has his whole burst anew"
	evicted := number(about, "evictions")
	switch {
	case about["=evictions"] == "off":
		return Finding{Check: "eviction", Level: Fine, Says: "nothing is evicted (-M), and a full memory refuses decisions"}
	case evicted == 0:
		return Finding{Check: "eviction", Level: Fine, Says: "nothing was evicted since it started; once it is full, " + cost}
	default:
		return Finding{
			Check: "eviction", Level: Warning, Says: fmt.Sprintf("%d items were evicted since it started: %s", evicted, cost),
			Advice: "more memory (-m), or a server for limits alone",
		}
	}
}

// itemSize is about sliding logs, which lie in one item each.
func itemSize(about map[string]string) Finding {
	most := number(about, "=item_size_max")
	if most > 0 && most < 1<<20 {
		return Finding{Check: "item size", Level: Warning, Says: fmt.Sprintf("items have at most %d bytes: a sliding log with more entries is refused", most), Advice: "-I 1m or more"}
	}
	return Finding{Check: "item size", Level: Fine, Says: fmt.Sprintf("items have at most %d bytes", most)}
}

// numbers is about cas, without which nothing is atomic.
func numbers(about map[string]string) Finding {
	if about["=cas_enabled"] == "no" {
		return Finding{Check: "cas", Level: Failing, Says: "its items have no cas numbers", Advice: "run it without -C"}
	}
	return Finding{Check: "cas", Level: Fine, Says: "items have cas numbers"}
}

// tryOut makes decisions under every algorithm, and removes them.
func tryOut(ctx context.Context, servers []string) []Finding {
	s, err := New(&Options{Namespace: "check-" + rand.Text(), Ephemeral: true, Timeout: 5 * time.Second}, servers...)
	if err != nil {
		return []Finding{finding("decisions", err)}
	}
	var took []time.Duration
	for _, a := range algo.All() {
		b, err := s.Bind(headgate.Rule{Scope: "check", Name: "check", Limit: headgate.Limit{Rate: 10, Period: time.Minute}, Algorithm: a.Name})
		if err != nil {
			return []Finding{finding("decisions", errors.Join(err, s.Close()))}
		}
		for range 4 {
			start := time.Now()
			if _, err := b.Apply(ctx, headgate.StoreClock, "key", headgate.Take, 1); err != nil {
				return []Finding{finding("decisions", errors.Join(err, s.Close()))}
			}
			took = append(took, time.Since(start))
		}
	}
	if err := s.Close(); err != nil {
		return []Finding{finding("decisions", err)}
	}
	latency, _ := diagnosis.OfLatency(took)
	says := fmt.Sprintf("%d algorithms decided, and what they wrote is removed", len(algo.All()))
	return []Finding{{Check: "decisions", Level: Fine, Says: says}, latency}
}
