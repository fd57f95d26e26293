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
	Warning = diagnosis.Warning // decisions work, but have a disadvantage that the finding names
	Failing = diagnosis.Failing // decisions fail now, or will fail later
)

// Diagnose checks memcached servers. Their addresses have the syntax of [New]. It makes
// a few decisions in a namespace of its own and removes the keys. It compares the local
// clock with the clocks of the servers, and with the clock of the process that used
// Options.Namespace last with [Options.OnClockSkew]. It uses no other option; opts may
// be nil. Diagnose returns an error only for invalid options or addresses; an
// unreachable server is a finding. It needs about a dozen round trips for each server.
// It returns after at most 20 s, or when ctx ends.
func Diagnose(ctx context.Context, opts *Options, servers ...string) ([]Finding, error) {
	o, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	list, err := parseServers(servers)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var all []Finding
	for _, server := range list {
		found := inspect(ctx, server)
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
	all = append(all, processClock(o.Namespace, servers))
	return append(all, testDecisions(ctx, servers)...), nil
}

// inspect checks the settings and the statistics of one server.
func inspect(ctx context.Context, server net.Addr) []Finding {
	conn, err := new(net.Dialer).DialContext(ctx, server.Network(), server.String())
	if err != nil {
		return []Finding{finding("connection", classify(err, false))}
	}
	defer conn.Close()
	if until, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(until)
	}
	sent := time.Now()
	stats, err := readStats(conn)
	if err != nil {
		return []Finding{finding("connection", classify(err, false))}
	}
	return []Finding{
		{Check: "version", Level: Fine, Says: "memcached " + stats["version"]},
		memory(stats), eviction(stats), itemSize(stats), casNumbers(stats), serverClock(stats, sent, time.Now()),
	}
}

// finding returns the [Finding] for a check that failed with err.
func finding(check string, err error) Finding {
	return diagnosis.OfError(check, Failing, err, "headgate: memcached: ")
}

// maxStatsBytes is the maximum number of bytes that are read from a server, which may
// not be memcached.
const maxStatsBytes = 1 << 16

// readStats returns the statistics (stats) and the settings (stats settings) of a
// server, by name. The names of settings are prefixed with “=”.
func readStats(conn net.Conn) (map[string]string, error) {
	if _, err := io.WriteString(conn, "stats\r\nstats settings\r\n"); err != nil {
		return nil, err
	}
	all, ends := map[string]string{}, 0
	lines := bufio.NewScanner(io.LimitReader(conn, maxStatsBytes))
	for ends < 2 && lines.Scan() {
		line := strings.TrimSuffix(lines.Text(), "\r")
		stat, isStat := strings.CutPrefix(line, "STAT ")
		switch {
		case line == "END":
			ends++
		case isStat:
			name, value, _ := strings.Cut(stat, " ")
			all[strings.Repeat("=", ends)+name] = value
		default:
			return nil, fmt.Errorf("memcache: unexpected reply %.60q", line)
		}
	}
	if ends < 2 {
		return nil, errors.Join(io.ErrUnexpectedEOF, lines.Err())
	}
	return all, nil
}

func number(stats map[string]string, name string) int64 {
	n, _ := strconv.ParseInt(stats[name], 10, 64)
	return n
}

func memory(stats map[string]string) Finding {
	used, limit := number(stats, "bytes"), number(stats, "limit_maxbytes")
	return Finding{Check: "memory", Level: Fine, Says: fmt.Sprintf("%.1f of %.1f MB used, %d items", float64(used)/1e6, float64(limit)/1e6, number(stats, "curr_items"))}
}

func eviction(stats map[string]string) Finding {
	const cost = "each eviction resets a limit, which then allows its whole burst again"
	evicted := number(stats, "evictions")
	switch {
	case stats["=evictions"] == "off":
		return Finding{Check: "eviction", Level: Fine, Says: "the server evicts nothing (-M); decisions fail if its memory is full"}
	case evicted == 0:
		return Finding{Check: "eviction", Level: Fine, Says: "nothing was evicted since the server started; once the memory is full, " + cost}
	default:
		return Finding{
			Check: "eviction", Level: Warning, Says: fmt.Sprintf("%d items were evicted since the server started: %s", evicted, cost),
			Advice: "add memory (-m), or use a separate server for limits",
		}
	}
}

// itemSize checks the maximum item size, because a sliding log is one item.
func itemSize(stats map[string]string) Finding {
	limit := number(stats, "=item_size_max")
	if limit > 0 && limit < 1<<20 {
		return Finding{Check: "item size", Level: Warning, Says: fmt.Sprintf("the maximum item size is %d bytes: the server refuses longer sliding logs", limit), Advice: "start memcached with -I 1m or more"}
	}
	return Finding{Check: "item size", Level: Fine, Says: fmt.Sprintf("the maximum item size is %d bytes", limit)}
}

// casNumbers checks that the server supports cas, which every write requires.
func casNumbers(stats map[string]string) Finding {
	if stats["=cas_enabled"] == "no" {
		return Finding{Check: "cas", Level: Failing, Says: "items have no CAS values", Advice: "start memcached without the option -C"}
	}
	return Finding{Check: "cas", Level: Fine, Says: "items have CAS values"}
}

// testDecisions makes a few decisions with every algorithm and removes the keys.
func testDecisions(ctx context.Context, servers []string) []Finding {
	s, err := New(&Options{Namespace: "check-" + rand.Text(), Ephemeral: true, Timeout: 5 * time.Second}, servers...)
	if err != nil {
		return []Finding{finding("decisions", err)}
	}
	var took []time.Duration
	for _, a := range algo.Rates() {
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
	says := fmt.Sprintf("tested %d algorithms and removed the test keys", len(algo.Rates()))
	return []Finding{{Check: "decisions", Level: Fine, Says: says}, latency}
}
