package redisstore

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/testserver"
)

// logEntries is the number of entries of the large log; 1000000 take some minutes.
var logEntries = flag.Int("log-entries", 17_000, "entries of the sliding log whose work per operation is counted")

// The maximum work of one operation on a log of any size.
const (
	maxLogCommands = 12
	maxLogDeletes  = 17                // 16 chunks and the index of a group
	maxLogField    = 77 + 12*127       // bytes of a head with a full tail
	logStart       = 1_790_000_000_000 // ms
	logStep        = 1000              // µs between two entries
)

// TestLogWorkIsBounded counts the commands that operations execute on a small and on a
// large log, and the fields that they delete. No field is large, so the work of an
// operation does not depend on the size of the log.
func TestLogWorkIsBounded(t *testing.T) {
	server := testserver.Redis(t)
	s := newEditedStore(t, server.Addr())
	rules := map[string]*rule{
		"": bindLog(t, s, "2000000/24h"), "raised": bindLog(t, s, "3000000/48h"), "lowered": bindLog(t, s, "100/24h"), "shortened": bindLog(t, s, "2000000/1s"),
	}
	for _, entries := range []int{1000, *logEntries} {
		w := logWork{t: t, server: server, store: s, entries: entries, last: logStart*1000 + int64(entries)*logStep}
		w.fill(rules[""])
		for _, o := range w.operations() {
			w.check(o, rules[o.rule])
		}
	}
}

// logWork is a log of one size, with one unit at each entry.
type logWork struct {
	t       *testing.T
	server  *testserver.RedisServer
	store   *Store
	entries int
	last    int64 // instant of the newest entry
	name    string
}

// workOperation is an operation whose work is counted.
type workOperation struct {
	name, rule string
	t          int64
	verb       algo.Verb
	n, mark    int64
}

func (w *logWork) operations() []workOperation {
	const period = 24 * 3600 * 1_000_000
	half := int64(w.entries / 2)
	now, all := w.last+logStep, w.last+period
	halfExpired := all - half*logStep
	return []workOperation{
		{"take", "", now, algo.Take, 1, 0},
		{"take of many units", "", now, algo.Take, 5000, 0},
		{"take at an earlier instant", "", w.last - 10, algo.Take, 1, 0},
		{"take that is denied", "", now, algo.Take, 2_000_000 - half, 0},
		{"take, one expired", "", w.last + period - int64(w.entries-1)*logStep, algo.Take, 1, 0},
		{"take, half expired", "", halfExpired, algo.Take, 1, 0},
		{"take, all expired", "", all, algo.Take, 1, 0},
		{"take under a raised limit", "raised", now, algo.Take, 1, 0},
		{"take under a lowered limit", "lowered", now, algo.Take, 1, 0},
		{"take under a shortened period", "shortened", now, algo.Take, 1, 0},
		{"peek", "", now, algo.Peek, 1, 0},
		{"peek that is denied", "", now, algo.Peek, 2_000_000 - half, 0},
		{"peek of the limit", "", now, algo.Peek, 2_000_000, 0},
		{"peek, half expired", "", halfExpired, algo.Peek, 2_000_000, 0},
		{"peek, all expired", "", all, algo.Peek, 1, 0},
		{"refund", "", now, algo.Refund, 1, 0},
		{"refund of several entries", "", now, algo.Refund, 500, 0},
		{"refund of half", "", now, algo.Refund, half, 0},
		{"refund of all", "", now, algo.Refund, int64(w.entries), 0},
		{"refund of too many", "", now, algo.Refund, maxUnits, 0},
		{"refund, half expired", "", halfExpired, algo.Refund, 1, 0},
		{"refund, all expired", "", all, algo.Refund, 1, 0},
		{"undo of the newest entry", "", now, verbUndo, 1, w.last},
		{"undo of an old entry", "", now, verbUndo, 1, w.last - half*logStep},
		{"undo of an unknown entry", "", now, verbUndo, 1, w.last - half*logStep - 1},
		{"reset", "", now, algo.Reset, 0, 0},
	}
}

// fill creates the log and a copy.
func (w *logWork) fill(r *rule) {
	w.server.Do(w.t, "FLUSHALL")
	const batch = 1000
	for i := 0; i < w.entries; i += batch {
		var groups []*group
		for j := i; j < min(i+batch, w.entries); j++ {
			g := &group{now: logStart*1000 + int64(j+1)*logStep}
			g.add(logOp(r, g.now, algo.Take, 1, 0))
			groups = append(groups, g)
		}
		w.store.send(w.t.Context(), groups)
		for _, g := range groups {
			if o := g.keys[0].ops[0]; o.err != nil || !o.decision.Allowed {
				w.t.Fatalf("filling the log: %+v, error %v", o.decision, o.err)
			}
		}
	}
	w.name = w.server.Do(w.t, "KEYS", "*").Strings()[0]
	w.server.Do(w.t, "COPY", w.name, "copy")
	const largest = `local largest = 0
for _, value in ipairs(redis.call('HVALS', KEYS[1])) do largest = math.max(largest, #value) end
return largest`
	if got := w.server.Do(w.t, "EVAL", largest, "1", w.name).Int(); got > maxLogField {
		w.t.Errorf("%d entries: the largest field has %d bytes, want at most %d", w.entries, got, maxLogField)
	}
}

// check executes an operation, counts its work, and restores the log.
func (w *logWork) check(o workOperation, r *rule) {
	w.server.Do(w.t, "CONFIG", "RESETSTAT")
	fields := w.fields()
	g := &group{now: o.t}
	g.add(logOp(r, o.t, o.verb, o.n, o.mark))
	w.store.send(w.t.Context(), []*group{g})
	if err := g.keys[0].ops[0].err; err != nil {
		w.t.Errorf("%s: %v", o.name, err)
	}
	commands, list := w.commands()
	deleted := fields - w.fields()
	if w.server.Do(w.t, "EXISTS", w.name).Int() == 0 {
		deleted = 0 // one UNLINK
	}
	if commands > maxLogCommands || deleted > maxLogDeletes {
		w.t.Errorf("%d entries: %s: %d commands (%s), %d fields deleted; want at most %d and %d", w.entries, o.name, commands, list, deleted, maxLogCommands, maxLogDeletes)
	}
	w.t.Logf("%7d entries: %-30s %s, %d deleted", w.entries, o.name, list, deleted)
	w.server.Do(w.t, "COPY", "copy", w.name, "REPLACE")
}

func (w *logWork) fields() int { return int(w.server.Do(w.t, "HLEN", w.name).Int()) }

// commands returns the number of commands that scripts executed, and a list of them.
// These commands may neither depend on the size of a key nor free it.
func (w *logWork) commands() (total int, list string) {
	var names []string
	for line := range strings.Lines(w.server.Do(w.t, "INFO", "commandstats").String()) {
		name, stats, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "cmdstat_"), ":calls=")
		count, _, _ := strings.Cut(stats, ",")
		calls, _ := strconv.Atoi(count)
		switch name, _, _ = strings.Cut(name, "|"); name {
		case "hello", "client", "ping": // the client opened another connection
			continue
		case "evalsha", "eval", "config", "hlen", "info", "", "# Commandstats":
			continue
		case "time", "mget", "get", "hget", "hset", "hdel", "set", "pexpire", "unlink", "pttl":
		default:
			w.t.Errorf("a script calls %s", name)
		}
		total += calls
		names = append(names, fmt.Sprint(calls, " ", name))
	}
	return total, strings.Join(names, ", ")
}
