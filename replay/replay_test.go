package replay_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/replay"
)

func openMemory() (headgate.Store, error) { return memstore.New(nil), nil }

// textLog returns a log with a text.
func textLog(name, text string) replay.Log {
	return replay.Log{Name: name, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

var realLog = []replay.Log{{
	Name: "access.log.gz", Open: func() (io.ReadCloser, error) { return os.Open("../testdata/apache_access.log.gz") },
}}

// everyAlgorithm lists all algorithms.
func everyAlgorithm() (names []headgate.Algorithm) {
	for _, a := range algo.Rates() {
		names = append(names, a.Name)
	}
	return names
}

func limits(t *testing.T, texts ...string) (limits []headgate.Limit) {
	t.Helper()
	for _, text := range texts {
		limits = append(limits, headgate.MustParseLimit(text))
	}
	return limits
}

func mustParseKey(t *testing.T, text string) replay.Key {
	t.Helper()
	k, err := replay.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestRealLog compares with totals of a program in another language with rational
// arithmetic.
func TestRealLog(t *testing.T) {
	type totals struct{ denied, touched, worst, differs int64 }
	for _, tt := range []struct {
		key    string
		limits []string
		keys   int64
		want   [6]totals // of the first six of algo.All
	}{
		{key: "ip", limits: []string{"10/s burst 20"}, keys: 1753},
		{key: "ip", limits: []string{"5/1m"}, keys: 1753, want: [6]totals{
			{1893, 100, 291, 1190}, {3083, 504, 319, 0}, {3083, 504, 319, 0}, {3083, 504, 319, 0}, {3083, 504, 319, 0}, {1893, 100, 291, 1190},
		}},
		{key: "ip", limits: []string{"1/1m burst 3", "20/24h"}, keys: 1753, want: [6]totals{
			{4909, 583, 393, 2201}, {5011, 585, 402, 2287}, {6970, 929, 409, 126}, {6984, 929, 412, 0}, {6988, 929, 414, 124}, {4909, 583, 393, 2201},
		}},
		{key: "ip", limits: []string{"1/1m queue 2", "20/24h"}, keys: 1753, want: [6]totals{
			{4909, 583, 393, 2201}, {5011, 585, 402, 2287}, {6970, 929, 409, 126}, {6984, 929, 412, 0}, {6988, 929, 414, 124}, {4909, 583, 393, 2201},
		}},
		{key: "ip+path", limits: []string{"2/1m"}, keys: 7854, want: [6]totals{
			{215, 36, 145, 101}, {316, 55, 200, 0}, {316, 55, 200, 0}, {316, 55, 200, 0}, {316, 55, 200, 0}, {215, 36, 145, 101},
		}},
		{key: "method", limits: []string{"100/1h"}, keys: 4, want: [6]totals{
			{1591, 1, 1591, 2695}, {1620, 1, 1620, 2736}, {1592, 1, 1592, 2696}, {1814, 1, 1814, 0}, {5536, 1, 5536, 5178}, {1591, 1, 1591, 2695},
		}},
	} {
		t.Run(fmt.Sprint(tt.key, " ", tt.limits), func(t *testing.T) {
			policies := replay.SideBySide(limits(t, tt.limits...), everyAlgorithm()...)
			r, err := replay.Run(t.Context(), realLog, policies, openMemory, &replay.Options{Key: mustParseKey(t, tt.key)})
			if err != nil {
				t.Fatal(err)
			}
			if r.Lines != 10000 || r.Requests != 10000 || r.Unreadable != 0 || r.OutOfOrder != 9448 || r.Keys != tt.keys || !r.KeysExact {
				t.Errorf("%d lines, %d requests, %d unreadable, %d out of order, %d keys; want 10000, 10000, 0, 9448, %d",
					r.Lines, r.Requests, r.Unreadable, r.OutOfOrder, r.Keys, tt.keys)
			}
			for i, p := range r.Policies {
				got := totals{p.Denied, p.KeysTouched, p.DenialsPerKey.Max, *p.Differs}
				if i < len(tt.want) && got != tt.want[i] || p.Admitted != 10000-p.Denied || sum(r.Series.Denied[i]) != p.Denied {
					t.Errorf("%s: %+v, %d admitted, %d denied over time; want %+v", p.Algorithm, got, p.Admitted, sum(r.Series.Denied[i]), tt.want[min(i, len(tt.want)-1)])
				}
			}
			if sum(r.Series.Requests) != 10000 {
				t.Errorf("%d requests over time, want 10000", sum(r.Series.Requests))
			}
		})
	}
}

func sum(numbers []int64) (total int64) {
	for _, n := range numbers {
		total += n
	}
	return total
}

// record is a line of generated logs.
type record struct {
	At   int64  `json:"ts_us"`
	Key  string `json:"key"`
	Cost int64  `json:"cost"`
}

func randomRecords(n int, disorder int64) []record {
	r := rand.New(rand.NewPCG(7, 7))
	records := make([]record, n)
	for i := range records {
		records[i] = record{At: int64(i)*50 + r.Int64N(disorder), Key: fmt.Sprint("key ", r.IntN(40)), Cost: r.Int64N(4)}
	}
	return records
}

func recordsLog(t *testing.T, records []record) replay.Log {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	for _, r := range records {
		if err := e.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	return textLog("records", b.String())
}

// TestDecisionsEqualLimiter: each request is decided at its own time, in time order and
// in input order among equal times, like a direct call of a limiter.
func TestDecisionsEqualLimiter(t *testing.T) {
	records := randomRecords(20_000, 5000)
	policy := headgate.MustPolicy("300/1s burst 7", "4000/1m")
	var out bytes.Buffer
	_, err := replay.Run(t.Context(), []replay.Log{recordsLog(t, records)}, []headgate.Policy{policy}, openMemory, &replay.Options{Decisions: &out})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(records, func(a, b record) int { return int(a.At - b.At) })
	limiter, err := headgate.New(memstore.New(nil), policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(&out)
	for i, r := range records {
		d, err := limiter.AllowAt(t.Context(), headgate.Instant(r.At).Time(), r.Key, r.Cost)
		if err != nil || !lines.Scan() {
			t.Fatalf("request %d: %v; the decisions end", i, err)
		}
		want := fmt.Sprintf(`{"ts_us":%d,"key":%q,"cost":%d,"allowed":%t,"limit":%d,"remaining":%d,"retry_after_us":%d,"reset_after_us":%d,"delay_us":%d,"never":%t}`,
			r.At, r.Key, r.Cost, d.Allowed, d.Limit, d.Remaining, d.RetryAfter.Microseconds(), d.ResetAfter.Microseconds(), d.Delay.Microseconds(), d.Never)
		if lines.Text() != want {
			t.Fatalf("request %d:\ngot  %s\nwant %s", i, lines.Text(), want)
		}
	}
	if lines.Scan() {
		t.Errorf("there is a decision too many: %s", lines.Text())
	}
}

func TestTemporaryFileFails(t *testing.T) {
	log := recordsLog(t, randomRecords(600_000, 100))
	_, err := replay.Run(t.Context(), []replay.Log{log}, []headgate.Policy{headgate.MustPolicy("1/s")}, openMemory,
		&replay.Options{Memory: replay.MinMemory, TempDir: "nosuch"})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "temporary file in nosuch failed") {
		t.Errorf("got %v; want one that names the directory and says what to do", err)
	}
}

// TestSeveralLogs: several logs are one stream in time, each with its own format;
// errors of one do not affect the others.
func TestSeveralLogs(t *testing.T) {
	broken := io.MultiReader(strings.NewReader(`{"ts_us":3000000,"key":"a"}`+"\n"+`{"ts_us":4`), errorReader{})
	logs := []replay.Log{
		textLog("one", `192.0.2.7 - - [01/Jan/1970:00:00:02 +0000] "GET / HTTP/1.1" 200 5 "-" "-"`+"\njunk\n"),
		{Name: "gone", Open: func() (io.ReadCloser, error) { return nil, os.ErrNotExist }},
		{Name: "broken", Open: func() (io.ReadCloser, error) { return io.NopCloser(broken), nil }},
		textLog("two", "\n"+`{"ts_us":1000000,"key":"192.0.2.7"}`),
	}
	r, err := replay.Run(t.Context(), logs, []headgate.Policy{headgate.MustPolicy("1/1m")}, openMemory, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []replay.LogReport{
		{Name: "one", Format: replay.Combined, Lines: 2},
		{Name: "gone", Error: os.ErrNotExist.Error()},
		{Name: "broken", Format: replay.JSONLines, Lines: 2, Error: errBroken.Error()},
		{Name: "two", Format: replay.JSONLines, Lines: 2},
	}
	if !slices.Equal(r.Logs, want) {
		t.Errorf("logs %+v\nwant %+v", r.Logs, want)
	}
	if r.Requests != 3 || r.Unreadable != 3 || r.OutOfOrder != 1 || r.Policies[0].Denied != 1 {
		t.Errorf("%d requests, %d unreadable, %d out of order, %d denied; want 3, 3, 1, 1", r.Requests, r.Unreadable, r.OutOfOrder, r.Policies[0].Denied)
	}
	if len(r.BadLines) != 3 || r.BadLines[1].Log != "broken" || r.BadLines[1].Line != 2 || r.BadLines[2].Line != 1 {
		t.Errorf("bad lines %v; want one:2, broken:2, two:1", r.BadLines)
	}
}

var errBroken = errors.New("broken")

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, errBroken }

func TestNothingToReplay(t *testing.T) {
	for name, log := range map[string]replay.Log{
		"empty": textLog("empty", ""), "junk": textLog("junk", "\x00\xff\nhello\n"),
		"broken": {Name: "broken", Open: func() (io.ReadCloser, error) { return nil, errBroken }},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := replay.Run(t.Context(), []replay.Log{log}, []headgate.Policy{headgate.MustPolicy("1/s")}, openMemory, nil)
			if !errors.Is(err, replay.ErrNothingToReplay) || r == nil || r.Requests != 0 {
				t.Fatalf("got %v, %v; want ErrNothingToReplay and a report", r, err)
			}
			if err := r.WriteText(io.Discard); err != nil {
				t.Errorf("the report cannot be written: %v", err)
			}
		})
	}
}

// failingStore allows n charges and then fails.
type failingStore struct {
	headgate.Store
	left int
}

type failingBound struct {
	headgate.Bound
	store *failingStore
}

func (s *failingStore) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(rule)
	return failingBound{b, s}, err
}

func (b failingBound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if b.store.left--; b.store.left < 0 {
		return headgate.Decision{}, headgate.ErrStoreUnavailable
	}
	return b.Bound.Apply(ctx, now, key, v, cost)
}

func TestRunErrors(t *testing.T) {
	log := recordsLog(t, randomRecords(100_000, 100))
	cancelled, cancel := context.WithCancelCause(t.Context())
	cancel(errBroken)
	policy := headgate.MustPolicy("1/s")
	for _, tt := range []struct {
		name     string
		ctx      context.Context
		policies []headgate.Policy
		open     func() (headgate.Store, error)
		opts     replay.Options
		want     error
		text     string
	}{
		{name: "no policy", policies: []headgate.Policy{}, text: "no policy"},
		{name: "invalid policy", policies: []headgate.Policy{{}}, want: headgate.ErrInvalidPolicy},
		{name: "unknown algorithm", policies: []headgate.Policy{{Limits: policy.Limits, Algorithm: "x"}}, want: headgate.ErrUnknownAlgorithm},
		{name: "too little memory", opts: replay.Options{Memory: 1}, text: "16 MiB"},
		{name: "no store", open: func() (headgate.Store, error) { return nil, errBroken }, want: errBroken},
		{
			name: "the store breaks", want: headgate.ErrStoreUnavailable,
			open: func() (headgate.Store, error) { return &failingStore{memstore.New(nil), 2000}, nil },
		},
		{name: "decisions cannot be written", opts: replay.Options{Decisions: fullDisk{}}, want: errBroken, text: "the decisions could not be written completely"},
		{name: "cancelled", ctx: cancelled, want: errBroken},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.ctx == nil {
				tt.ctx = t.Context()
			}
			if tt.policies == nil {
				tt.policies = []headgate.Policy{policy}
			}
			if tt.open == nil {
				tt.open = openMemory
			}
			r, err := replay.Run(tt.ctx, []replay.Log{log}, tt.policies, tt.open, &tt.opts)
			if r != nil || err == nil || tt.want != nil && !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got report %v and error %v; want no report and %v %q", r, err, tt.want, tt.text)
			}
		})
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errBroken }

// TestCancelWhileALogBlocks: a replay can be cancelled while a log blocks in Read.
func TestCancelWhileALogBlocks(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	defer w.Close() // unblocks the reader
	opened := make(chan struct{})
	log := replay.Log{Name: "pipe", Open: func() (io.ReadCloser, error) { close(opened); return r, nil }}
	go func() { <-opened; cancel() }()
	if _, err := replay.Run(ctx, []replay.Log{log}, []headgate.Policy{headgate.MustPolicy("1/s")}, openMemory, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

func TestProgress(t *testing.T) {
	var last replay.Progress
	opts := replay.Options{Progress: func(p replay.Progress) {
		if p.Decided < last.Decided || p.Requests < last.Requests || p.Bytes < last.Bytes {
			t.Errorf("progress goes back from %+v to %+v", last, p)
		}
		last = p
	}}
	if _, err := replay.Run(t.Context(), realLog, []headgate.Policy{headgate.MustPolicy("1/s")}, openMemory, &opts); err != nil {
		t.Fatal(err)
	}
	if last.Decided != 10000 || last.Requests != 10000 {
		t.Errorf("the last progress is %+v, want 10000 of 10000 decided", last)
	}
}

func TestSideBySide(t *testing.T) {
	limit := limits(t, "100/1m queue 50", "5/s burst 7")
	for _, p := range replay.SideBySide(limit, everyAlgorithm()...) {
		want, second := "100/m burst 51", limit[1]
		switch {
		case p.Algorithm.Queues():
			want = "100/m queue 50"
		case p.Algorithm.Windowed():
			want, second.Burst = "100/m", 0
		}
		if got := p.Limits[0].String(); got != want || p.Limits[1] != second {
			t.Errorf("%s gets %s and %s, want %s and %s", p.Algorithm, got, p.Limits[1], want, second)
		}
	}
	if p := replay.SideBySide(limit, headgate.TokenBucket); p[0].Limits[0] != limit[0] {
		t.Errorf("a single algorithm gets %s instead of the limit as it is", p[0].Limits[0])
	}
}
