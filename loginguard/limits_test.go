package loginguard_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

const (
	hour = time.Hour
	day  = 24 * time.Hour
)

// documentedLimits are the bounds of the default limits in docs/guides/login.md,
// calculated by hand.
var documentedLimits = []struct {
	kind      string
	limits    []headgate.Limit
	immediate int64
	hour, day int64
}{
	{"pair", loginguard.Lockout{}.Limits(), 5, 19, 111},
	{"account", loginguard.Lockout{Free: 20, Step: 4, Factor: 4}.Limits(), 20, 44, 136},
	{"address", headgate.MustPolicy("10/1m burst 30", "100/24h").Limits, 30, 104, 200},
	{"subnet", headgate.MustPolicy("30/1m burst 100", "500/24h").Limits, 100, 520, 1000},
}

func TestMaxAttemptsMatchesDocs(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/guides/login.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documentedLimits {
		immediate, inHour, inDay := loginguard.MaxAttempts(d.limits, 0), loginguard.MaxAttempts(d.limits, hour), loginguard.MaxAttempts(d.limits, day)
		if immediate != d.immediate || inHour != d.hour || inDay != d.day {
			t.Errorf("%s: immediately %d, in an hour %d, in a day %d; want %d, %d, %d", d.kind, immediate, inHour, inDay, d.immediate, d.hour, d.day)
		}
		if row := fmt.Sprintf("| %d | %d | %d |", d.immediate, d.hour, d.day); !strings.Contains(string(page), row) {
			t.Errorf("%s: docs/guides/login.md has no row with %q", d.kind, row)
		}
	}
}

func TestMaxAttempts(t *testing.T) {
	t.Parallel()
	huge := headgate.Limit{Rate: headgate.MaxUnits, Period: time.Millisecond, Burst: headgate.MaxUnits}
	for _, c := range []struct {
		name   string
		limits []headgate.Limit
		span   time.Duration
		want   int64
	}{
		{"no limits", nil, hour, math.MaxInt64},
		{"a negative span counts as 0", headgate.MustPolicy("3/1s").Limits, -hour, 3},
		{"rounded down", headgate.MustPolicy("3/1s").Limits, 999 * time.Millisecond, 3 + 2},
		{"both ends are included", headgate.MustPolicy("3/1s").Limits, time.Second, 6},
		{"overflow", []headgate.Limit{huge}, math.MaxInt64, math.MaxInt64},
		{"overflow of one limit", []headgate.Limit{huge, headgate.MustParseLimit("1/1h")}, hour, 2},
	} {
		if got := loginguard.MaxAttempts(c.limits, c.span); got != c.want {
			t.Errorf("%s: got %d want %d", c.name, got, c.want)
		}
	}
}

func TestLockoutLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		lockout loginguard.Lockout
		want    string
	}{
		{"defaults", loginguard.Lockout{}, "1/s burst 5, 1/2s burst 6, 1/4s burst 7, 1/8s burst 8, 1/16s burst 9, 1/32s burst 10, " +
			"1/64s burst 11, 1/128s burst 12, 1/256s burst 13, 1/512s burst 14, 1/15m burst 15"},
		{"slower", loginguard.Lockout{Free: 20, Step: 4, Factor: 4}, "1/s burst 20, 1/4s burst 24, 1/16s burst 28, 1/64s burst 32, " +
			"1/256s burst 36, 1/15m burst 40"},
		{"cap is reached exactly", loginguard.Lockout{Free: 1, Cap: 4 * time.Second}, "1/s burst 1, 1/2s burst 2, 1/4s burst 3"},
		{"cap below the first wait", loginguard.Lockout{First: hour, Cap: time.Minute}, "1/m burst 5"},
		{"below the minimum", loginguard.Lockout{Free: -1, Step: -1, Factor: 1, First: -1, Cap: time.Second}, "1/s burst 5"},
	} {
		var got []string
		for _, l := range c.lockout.Limits() {
			got = append(got, l.String())
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: got %s want %s", c.name, s, c.want)
		}
	}
}

// A lockout with very many limits is an error, not an endless loop.
func TestLockoutWithTooManyLimits(t *testing.T) {
	t.Parallel()
	limits := loginguard.Lockout{First: 1, Cap: math.MaxInt64}.Limits()
	_, err := loginguard.New(memstore.New(nil), &loginguard.Options{Limits: loginguard.Limits{Pair: limits}})
	if !errors.Is(err, loginguard.ErrInvalidOptions) && !errors.Is(err, headgate.ErrInvalidLimit) {
		t.Errorf("%d limits: got error %v want an error", len(limits), err)
	}
}

// For a client that always fails, five attempts are free, then the waits double from 1
// s to the cap.
func TestLockoutWaits(t *testing.T) {
	t.Parallel()
	g := mustNew(t, memstore.New(nil), nil)
	a := &attacker{guard: g, now: noon, next: func(int) loginguard.Client { return loginguard.Client{Addr: host(1, 1), Account: "bob"} }}
	var got []string
	for range 15 {
		last, before := a.now, a.allowed
		a.step(t)
		got = append(got, fmt.Sprintf("%d:%v", a.allowed-before, time.Duration(a.now-last)*time.Microsecond))
	}
	want := "5:1s 1:1s 1:2s 1:4s 1:8s 1:16s 1:32s 1:1m4s 1:2m8s 1:4m16s 1:8m32s 1:12m56s 1:15m0s 1:15m0s 1:15m0s"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("attempts and the wait after them:\ngot  %s\nwant %s", s, want)
	}
}
