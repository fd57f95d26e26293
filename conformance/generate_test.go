package conformance_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/conformance"
	"github.com/headgate/headgate/storetest/model"
)

var update = flag.Bool("update", false, "write the generated files anew; those worked by hand are never written")

// TestGeneratedFilesMatchModel generates every file again from its seed. The
// answers come from an independent model in math/big rationals, not from the tested
// code.
func TestGeneratedFilesMatchModel(t *testing.T) {
	for i, f := range append(generatedFiles(t, shipped()), severalLimits(), changedLimits(), holds(t), concurrency(t)) {
		t.Run(f.Name, func(t *testing.T) {
			name := filepath.FromSlash(f.Name)
			text := encode(t, f)
			if *update {
				if err := os.WriteFile(name, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			kept, err := os.ReadFile(name)
			if err != nil {
				t.Fatalf("file %d: %v; go test ./conformance -update writes it", i+1, err)
			}
			if !bytes.Equal(kept, text) {
				t.Errorf("%s is not what seed %d gives; if the definition has changed: go test ./conformance -update, and read the difference", f.Name, f.Seed)
			}
		})
	}
}

// shipped returns the algorithms that have files.
func shipped() []algo.Algorithm { return slices.DeleteFunc(algo.Rates(), isMadeUp) }

// withPeriods returns the algorithms of the files in which limits are combined or
// changed. An algorithm with a calendar has only a file of its own.
func withPeriods() []algo.Algorithm {
	return slices.DeleteFunc(shipped(), func(a algo.Algorithm) bool { return a.Name.HasCalendar() })
}

// madeUp returns the algorithms that scripts/test-made-up-algorithm adds. Every test
// plays their vectors, but no file stores them.
func madeUp() (algorithms []algo.Algorithm) {
	for _, a := range algo.Rates() {
		if isMadeUp(a) {
			algorithms = append(algorithms, a)
		}
	}
	return algorithms
}

func isMadeUp(a algo.Algorithm) bool { return strings.HasPrefix(string(a.Name), "made_up_") }

func generatedFiles(t *testing.T, algorithms []algo.Algorithm) (files []conformance.File) {
	for i, a := range algorithms {
		f := conformance.File{
			Name:  "generated/" + string(a.Name) + ".json",
			About: "Random limits and timelines over the whole domain, answered by a model in exact rationals.",
			Seed:  uint64(2026_0001 + i),
		}
		g := newGenerator(f.Seed)
		for n := range 24 {
			v := g.vector(a, n)
			if v.Limit.PeriodUS == 0 {
				v.Limit.EdgesUS = calendarEdges(t, limitOf(t, *v.Limit), v.Timeline[0].TimeUS, v.Timeline[len(v.Timeline)-1].TimeUS)
			}
			f.Vectors = append(f.Vectors, v)
		}
		files = append(files, f)
	}
	return files
}

// generator generates limits, instants and costs.
type generator struct{ *rand.Rand }

func newGenerator(seed uint64) generator { return generator{rand.New(rand.NewPCG(seed, seed))} }

// scaled returns a number from least to most. Each order of magnitude is equally likely.
func (g generator) scaled(least, most int64) int64 {
	low, high := math.Log(float64(least)), math.Log(float64(most))
	return min(most, max(least, int64(math.Exp(low+g.Float64()*(high-low)))))
}

// limit returns a common limit for every third vector and any accepted limit for the
// others.
func (g generator) limit(a algo.Algorithm, n int) headgate.Limit {
	if a.Name.OnlyHolds() {
		return headgate.Limit{Rate: g.scaled(1, []int64{4, 64, 1e6}[n%3]), Concurrent: true}
	}
	for {
		l := headgate.Limit{Rate: g.scaled(1, headgate.MaxUnits), Period: time.Duration(g.scaled(1000, headgate.MaxPeriod.Microseconds())) * time.Microsecond}
		if n%3 == 0 {
			everyday := []time.Duration{time.Second, time.Minute, 15 * time.Minute, time.Hour, 24 * time.Hour}
			l = headgate.Limit{Rate: g.scaled(1, 1000), Period: everyday[g.IntN(len(everyday))]}
		}
		switch {
		case a.Name.HasCalendar():
			l.Period, l.Calendar = 0, calendars[n%len(calendars)]
		case a.Name.Queues() && n%2 == 0:
			l.Queue = g.scaled(1, min(headgate.MaxUnits, 10*l.Rate))
		case a.Name.Windowed(), n%2 == 0:
		default:
			l.Burst = g.scaled(1, min(headgate.MaxUnits, 10*l.Rate))
		}
		if accepts(a, l) {
			return l
		}
	}
}

// calendars have gaps, repeated hours, a skipped day, and months without their first day.
var calendars = []headgate.Calendar{
	{Unit: headgate.CalendarMonth},
	{Unit: headgate.CalendarDay, Zone: "America/New_York"},
	{Unit: headgate.CalendarDay, Zone: "Europe/Berlin", From: 150},
	{Unit: headgate.CalendarWeek, From: 6},
	{Unit: headgate.CalendarMonth, Zone: "Asia/Kolkata", From: 30},
	{Unit: headgate.CalendarQuarter, Zone: "America/Sao_Paulo"},
	{Unit: headgate.CalendarYear},
	{Unit: headgate.CalendarHour, Zone: "Australia/Lord_Howe"},
}

func accepts(a algo.Algorithm, l headgate.Limit) bool {
	var err error
	if a.New != nil {
		_, err = a.New(l)
	} else {
		_, err = a.NewLog(l)
	}
	return err == nil
}

func numbers(l headgate.Limit) *conformance.Limit {
	return &conformance.Limit{Text: l.String(), Rate: l.Rate, PeriodUS: l.Period.Microseconds(), Capacity: l.Capacity()}
}

// vector returns a timeline of two keys. In every fourth vector the clock sometimes goes
// back, but not before a time at which a key was unused, because a limiter may have
// deleted the key by then.
func (g generator) vector(a algo.Algorithm, n int) conformance.Vector {
	l := g.limit(a, n)
	v := conformance.Vector{Name: fmt.Sprintf("random_%02d", n+1), Algorithm: string(a.Name), Limit: numbers(l)}
	keys := map[string]*model.Key{"a": model.NewKey(a.Name), "b": model.NewKey(a.Name)}
	now, last := int64(1_767_225_600_000_000)+g.Int64N(1e12), headgate.Decision{Limit: keys["a"].Peek(l, 0, 0).Limit}
	floor := now
	for range 18 {
		now = max(floor, g.next(now, l, last, n%4 == 3))
		s := conformance.Step{TimeUS: now, Key: []string{"a", "a", "a", "b"}[g.IntN(4)], Cost: g.cost(last)}
		s.Verb = []string{"take", "take", "take", "take", "take", "peek", "refund", "reset"}[g.IntN(8)]
		if s.Verb == "reset" {
			s.Cost = 0
		}
		last = modelled(keys[s.Key], l, s)
		v.Timeline, v.Answers = append(v.Timeline, s), append(v.Answers, answer(last))
		for _, k := range keys {
			if k.Peek(l, now, 0).ResetAfter == 0 {
				floor = now
			}
		}
	}
	return v
}

func modelled(k *model.Key, l headgate.Limit, s conformance.Step) headgate.Decision {
	switch s.Verb {
	case "take":
		return k.Take(l, s.TimeUS, s.Cost)
	case "peek":
		return k.Peek(l, s.TimeUS, s.Cost)
	case "refund":
		return k.Refund(l, s.TimeUS, s.Cost)
	default:
		return k.Reset(l, s.TimeUS)
	}
}

// next returns an instant at or near a time in the last answer, or any other instant.
func (g generator) next(now int64, l headgate.Limit, last headgate.Decision, mayGoBack bool) int64 {
	period := l.Period.Microseconds()
	if period == 0 { // a window of the calendar
		period = 86_400_000_000
	}
	switch g.IntN(8) {
	case 0, 1:
	case 2, 3:
		now += last.RetryAfter.Microseconds() - g.Int64N(2)
	case 4:
		now += last.ResetAfter.Microseconds() - g.Int64N(2)
	case 5:
		now += period - now%period - g.Int64N(2)
	case 6:
		if mayGoBack {
			return now - g.scaled(1, min(period, 1e9))
		}
		now++
	default:
		now += g.scaled(1, 3*period)
	}
	return max(now, 0)
}

func (g generator) cost(last headgate.Decision) int64 {
	switch g.IntN(8) {
	case 0:
		return g.Int64N(2)
	case 1, 2:
		return last.Remaining
	case 3:
		return last.Remaining + 1
	case 4:
		return last.Limit + g.Int64N(2)
	default:
		return g.scaled(1, last.Limit)
	}
}

// severalLimits returns the file of requests that are charged to two or three limits.
func severalLimits() conformance.File {
	f := conformance.File{
		Name: "generated/several_limits.json", About: "Random limits, several on one request, answered by a model in exact rationals.", Seed: 2026_0100,
	}
	g := newGenerator(f.Seed)
	for n := range 24 {
		f.Vectors = append(f.Vectors, g.several(n))
	}
	return f
}

func (g generator) several(n int) conformance.Vector {
	v := conformance.Vector{Name: fmt.Sprintf("random_%02d", n+1)}
	limits := map[string]headgate.Limit{}
	keys := map[string]*model.Key{}
	all := withPeriods()
	for _, name := range []string{"first", "second", "third"}[:2+n%2] {
		a := all[g.IntN(len(all))]
		limits[name] = g.limit(a, 3*n)
		v.Limits = append(v.Limits, conformance.NamedLimit{Name: name, Algorithm: string(a.Name), Limit: *numbers(limits[name])})
		for _, key := range []string{"a", "b"} {
			keys[name+key] = model.NewKey(a.Name)
		}
	}
	now, last := int64(1_767_225_600_000_000)+g.Int64N(1e12), headgate.Decision{Limit: v.Limits[0].Capacity}
	for range 16 {
		now = g.next(now, limits["first"], last, false)
		s := conformance.Step{TimeUS: now, Verb: []string{"take", "take", "take", "peek"}[g.IntN(4)]}
		var charges []model.Debit
		for range 1 + g.IntN(3) {
			c := conformance.Check{Limit: v.Limits[g.IntN(len(v.Limits))].Name, Key: []string{"a", "b"}[g.IntN(2)], Cost: g.cost(last)}
			s.Checks = append(s.Checks, c)
			charges = append(charges, model.Debit{Key: keys[c.Limit+c.Key], Name: c.Limit, Limit: limits[c.Limit], Cost: c.Cost})
		}
		if last = model.PeekAll(now, charges); s.Verb == "take" {
			last = model.TakeAll(now, charges)
		}
		a := answer(last)
		a.DeniedBy = last.DeniedBy
		v.Timeline, v.Answers = append(v.Timeline, s), append(v.Answers, a)
	}
	return v
}

// changedLimits returns the file of keys whose limit changes between requests. Denied
// requests, peeks and costs of 0 leave the state as it was under the earlier limit.
func changedLimits() conformance.File {
	f := conformance.File{
		Name: "generated/changed_limits.json", About: "Random timelines whose requests alternate between limits, answered by a model in exact rationals.", Seed: 2026_0200,
	}
	g := newGenerator(f.Seed)
	for n := range 24 {
		f.Vectors = append(f.Vectors, g.changed(withPeriods()[n%len(withPeriods())], n))
	}
	return f
}

// changed returns a timeline of one key under two or three limits. Windowed limits have
// the same period. The clock does not go back. A key that is unused under any of the
// limits is reset, because a limiter may have deleted it.
func (g generator) changed(a algo.Algorithm, n int) conformance.Vector {
	limits := []headgate.Limit{g.limit(a, n), g.limit(a, n), g.limit(a, n)}[:2+n%2]
	for i := range limits {
		if a.Name.Windowed() {
			limits[i].Period = limits[0].Period
		}
	}
	v := conformance.Vector{Name: fmt.Sprintf("random_%02d", n+1), Algorithm: string(a.Name), Limit: numbers(limits[0])}
	k := model.NewKey(a.Name)
	now, last := int64(1_767_225_600_000_000)+g.Int64N(1e12), headgate.Decision{Limit: k.Peek(limits[0], 0, 0).Limit}
	play := func(l headgate.Limit, s conformance.Step) {
		if l != limits[0] {
			s.Limit = numbers(l)
		}
		last = modelled(k, l, s)
		v.Timeline, v.Answers = append(v.Timeline, s), append(v.Answers, answer(last))
	}
	for range 24 {
		l := limits[g.IntN(len(limits))]
		now = g.next(now, l, last, false)
		for _, other := range limits {
			if k.Unused(other, now) {
				play(l, conformance.Step{TimeUS: now, Key: "a", Verb: "reset"})
				break
			}
		}
		play(l, conformance.Step{TimeUS: now, Key: "a", Verb: []string{"take", "take", "take", "take", "take", "peek", "refund"}[g.IntN(7)], Cost: g.cost(last)})
	}
	return v
}

// encode writes a file with one line for each step and each answer.
func encode(t *testing.T, f conformance.File) []byte {
	t.Helper()
	line := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "{\n  \"about\": %s,\n  \"seed\": %d,\n  \"vectors\": [", line(f.About), f.Seed)
	for i, v := range f.Vectors {
		fmt.Fprintf(&b, "%s\n    {\n      \"name\": %s,\n", comma(i), line(v.Name))
		if v.Limit != nil {
			fmt.Fprintf(&b, "      \"algorithm\": %s,\n      \"limit\": %s,\n", line(v.Algorithm), line(v.Limit))
			if v.OnExpiry != "" {
				fmt.Fprintf(&b, "      \"on_expiry\": %s,\n      \"over\": %s,\n", line(v.OnExpiry), line(v.ExcessPolicy))
			}
		} else {
			b.WriteString("      \"limits\": [" + lines(v.Limits, line) + "],\n")
		}
		b.WriteString("      \"timeline\": [" + lines(v.Timeline, line) + "],\n      \"answers\": [" + lines(v.Answers, line) + "]\n    }")
	}
	b.WriteString("\n  ]\n}\n")
	return b.Bytes()
}

func lines[T any](values []T, line func(any) string) (text string) {
	for i, v := range values {
		text += comma(i) + "\n        " + line(v)
	}
	return text + "\n      "
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}
