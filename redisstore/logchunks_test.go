package redisstore

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/testserver"
)

var (
	logSteps = flag.Int("log-steps", 8_000, "operations on sliding logs that are compared with package algo, for each size of a chunk")
	logSeed  = flag.Uint64("log-seed", 1, "seed of these operations")
)

// editedClient replaces the script of decisions.
type editedClient struct {
	Client
	text, sha string
}

func (c editedClient) Run(ctx context.Context, calls []Call, replies []Reply) {
	edited := make([]Call, len(calls))
	for i, call := range calls {
		if edited[i] = call; call.SHA == decideScript.sha {
			edited[i].Script, edited[i].SHA = c.text, c.sha
		}
	}
	c.Client.Run(ctx, edited, replies)
}

// newEditedStore returns a store whose script is edited: replacements are pairs of an
// old and a new text.
func newEditedStore(t *testing.T, addr string, replacements ...string) *Store {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	text := decideScript.text
	for i := 0; i < len(replacements); i += 2 {
		if strings.Count(text, replacements[i]) != 1 {
			t.Fatalf("the script contains %q %d times, want once", replacements[i], strings.Count(text, replacements[i]))
		}
		text = strings.Replace(text, replacements[i], replacements[i+1], 1)
	}
	sum := sha1.Sum([]byte(text))
	s, err := New(editedClient{Rueidis(client), text, hex.EncodeToString(sum[:])}, &Options{Timeout: time.Minute, DenialCacheTTL: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		client.Close()
	})
	return s
}

// bindLog binds a sliding log. All limits of the tests share the state of a key.
func bindLog(t *testing.T, s *Store, limit string) *rule {
	t.Helper()
	b, err := s.Bind(headgate.Rule{Scope: "log", Limit: headgate.MustParseLimit(limit), Algorithm: headgate.SlidingLog})
	if err != nil {
		t.Fatal(err)
	}
	return b.(*rule)
}

// logOp returns an operation on the key "k".
func logOp(r *rule, t int64, v algo.Verb, n, mark int64) *op {
	o := r.newOp(headgate.Instant(t), "k", v, n)
	o.undoes.at = mark
	return o
}

// applyToLog executes an operation with package algo.
func applyToLog(log *algo.Log, o *op) headgate.Decision {
	step, t, n := o.rule.log, o.request.T, o.request.N
	switch o.request.Verb {
	case algo.Take:
		ok := step.Take(log, t, n, true)
		return step.Answer(log, t, n, ok)
	case algo.Peek:
		return step.Answer(log, t, n, step.Fits(log, t, n))
	case algo.Refund:
		step.Refund(log, t, n)
	case verbUndo:
		step.Undo(log, o.undoes.at, n)
	default:
		*log = algo.Log{}
	}
	return step.Answer(log, t, 0, true)
}

// TestLogMatchesAlgo executes random operations on one log, under several limits, and
// compares every decision with package algo. With small chunks, a log has three levels
// of chunks already with a few entries.
func TestLogMatchesAlgo(t *testing.T) {
	server := testserver.Redis(t)
	for _, chunk := range []int{2, 3, 127} {
		t.Run(fmt.Sprint("chunks of ", chunk), func(t *testing.T) {
			server.Do(t, "FLUSHALL")
			s := newEditedStore(t, server.Addr(), "local CHUNK = 127", fmt.Sprint("local CHUNK = ", chunk), "local MAX_DELETED = 16", fmt.Sprint("local MAX_DELETED = ", chunk))
			w := logWalk{Rand: rand.New(rand.NewPCG(*logSeed, uint64(chunk))), now: 1_790_000_000_000_000}
			for _, limit := range []string{"60/1s", "1000/1s", "100000/10s", "100000/100s", "1000000000/10ms", "1000/20s"} {
				w.rules = append(w.rules, bindLog(t, s, limit))
			}
			for steps := 0; steps < *logSteps; {
				groups, ops := w.groups(100)
				steps += len(ops)
				s.send(t.Context(), groups)
				for _, o := range ops {
					want := o.rule.withDeniedBy(applyToLog(&w.log, o))
					if o.err != nil || fmt.Sprint(o.decision) != fmt.Sprint(want) {
						t.Fatalf("verb %d of %d units, undo at %d, under %v at %d, %d entries:\n got %+v, error %v\nwant %+v",
							o.request.Verb, o.request.N, o.undoes.at, o.rule.log.Params(), o.request.T, w.log.Len(), o.decision, o.err, want)
					}
				}
			}
			t.Logf("at most %d entries", w.longest)
		})
	}
}

// logWalk generates operations on one log.
type logWalk struct {
	*rand.Rand
	rules   []*rule
	main    *rule // the rule of most operations
	now     int64
	marks   []int64
	log     algo.Log // the reference
	longest int
}

// groups returns script calls with one to four operations, and all these operations.
func (w *logWalk) groups(count int) (groups []*group, ops []*op) {
	w.longest = max(w.longest, w.log.Len())
	if w.main == nil || w.IntN(20) == 0 {
		w.main = w.rules[w.IntN(len(w.rules))]
	}
	for range count {
		w.step()
		g := &group{now: w.now}
		for range 1 + max(0, w.IntN(6)-2) {
			o := w.op(w.main)
			if w.IntN(30) == 0 { // mostly a peek, because a take under a shorter period removes entries
				o.rule = w.rules[w.IntN(len(w.rules))]
				if w.IntN(20) > 0 {
					o.request.Verb = algo.Peek
				}
			}
			g.add(o)
			ops = append(ops, o)
		}
		groups = append(groups, g)
	}
	return groups, ops
}

// step advances the time, or sets it back.
func (w *logWalk) step() {
	switch w.IntN(100) {
	case 0:
		w.now -= w.Int64N(20_000)
	case 1:
		w.now += w.Int64N(200_000)
	case 2, 3, 4:
	default:
		w.now += 1 + w.Int64N(2_000)
	}
}

func (w *logWalk) op(r *rule) *op {
	limit := r.log.Params()[0]
	switch w.IntN(40) {
	case 0:
		return logOp(r, w.now, algo.Refund, 1+w.Int64N(5), 0)
	case 1:
		if w.IntN(20) == 0 {
			return logOp(r, w.now, algo.Refund, w.Int64N(w.log.Counted()+1), 0)
		}
	case 2, 3:
		if len(w.marks) > 0 {
			return logOp(r, w.now, verbUndo, 1+w.Int64N(3), w.marks[w.IntN(len(w.marks))])
		}
	case 4, 5, 6, 7, 8:
		return logOp(r, w.now, algo.Peek, 1+w.Int64N(limit), 0)
	case 9:
		return logOp(r, w.now, algo.Peek, w.Int64N(limit+5), 0)
	case 10:
		switch w.IntN(50) {
		case 0:
			return logOp(r, w.now, algo.Reset, 0, 0)
		case 1:
			return logOp(r, w.now, algo.Refund, maxUnits, 0)
		case 2, 3, 4:
			return logOp(r, w.now, algo.Take, 1+w.Int64N(limit), 0)
		}
	}
	if w.marks = append(w.marks, w.now); len(w.marks) > 40 {
		w.marks = w.marks[1:]
	}
	return logOp(r, w.now, algo.Take, 1+w.Int64N(3)/2, 0)
}
