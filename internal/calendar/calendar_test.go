package calendar_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/calendar"
)

var allZones = flag.Bool("all-zones", false, "compare all zones of the database with Python's zoneinfo and with JavaScript's Intl")

// zones have rules at which calendars often go wrong: differences of parts of an hour, a
// skipped day, gaps at midnight, two changes in a month, and a change of two hours.
// The short tests compare some of them, and the long tests all of them with Intl, which
// is faster than zoneinfo.
var zones = []string{
	"Pacific/Apia", "America/Sao_Paulo", "Antarctica/Troll", "Asia/Kathmandu", "Australia/Lord_Howe", "Africa/Monrovia", "Asia/Gaza",
	"Europe/Dublin", "Europe/Berlin", "America/St_Johns", "Africa/Casablanca", "Pacific/Kwajalein", "America/New_York", "Asia/Kolkata", "UTC",
}

var units = map[string]calendar.Unit{
	"hour": calendar.Hour, "day": calendar.Day, "week": calendar.Week, "month": calendar.Month, "quarter": calendar.Quarter, "year": calendar.Year,
}

// TestEdgesEqualZoneinfo compares every boundary from 1970 to 2100 with Python's
// zoneinfo, which reads the same zone database.
func TestEdgesEqualZoneinfo(t *testing.T) {
	t.Parallel()
	compareBoundaries(t, names(t, 3, 8), "python3", "testdata/edges.py")
}

// TestEdgesEqualIntl compares the boundaries with Intl of JavaScript, which has its own
// zone database.
func TestEdgesEqualIntl(t *testing.T) {
	t.Parallel()
	all := slices.DeleteFunc(names(t, 2, len(zones)), func(name string) bool { return differs[name] != "" })
	compareBoundaries(t, all, "node", "testdata/edges.js")
}

// differs has the zones that differ between versions of the zone database, because node
// contains a version of its own.
var differs = func() map[string]string {
	all := map[string]string{"America/Ensenada": "version 2025c corrects the 1970s in Baja California"}
	for _, name := range []string{"Africa/Casablanca", "Africa/El_Aaiun", "Asia/Gaza", "Asia/Hebron"} {
		all[name] = "the dates of future Ramadans are predictions, which versions change"
	}
	for _, name := range []string{"CET", "EET", "MET", "WET", "EST", "MST", "HST", "EST5EDT", "CST6CDT", "MST7MDT", "PST8PDT"} {
		all[name] = "a link to a city since version 2024b; Debian keeps the earlier zone"
	}
	return all
}()

// names returns the zones to compare: the first of zones, with different numbers in a
// short and in a long test, or with -all-zones all zones of the database.
func names(t *testing.T, short, long int) []string {
	t.Helper()
	switch {
	case *allZones:
	case testing.Short():
		return slices.Clone(zones[:short])
	default:
		return slices.Clone(zones[:long])
	}
	out, err := exec.Command("python3", "testdata/edges.py", "--names").Output()
	if err != nil {
		t.Fatalf("python3 testdata/edges.py --names: %v", err)
	}
	all := strings.Fields(string(out))
	if len(all) < 300 {
		t.Fatalf("got %d zones want at least 300", len(all))
	}
	return all
}

// compareBoundaries compares hashes of the boundaries with the hashes that a program
// prints.
func compareBoundaries(t *testing.T, zones []string, program ...string) {
	t.Helper()
	for _, zone := range zones {
		out, err := exec.Command(program[0], append(program[1:], zone)...).Output()
		if err != nil {
			t.Fatalf("%v %s: %v", program, zone, err)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(lines) < 7 {
			t.Errorf("%s: got %d lines want at least 7", zone, len(lines))
		}
		for _, line := range lines {
			var name, unit, hash string
			var from, count int
			if _, err := fmt.Sscan(line, &name, &unit, &from, &count, &hash); err != nil || name != zone {
				t.Fatalf("%q: error %v", line, err)
			}
			if got, want := boundariesOf(t, units[unit], zone, from), fmt.Sprintf("%d %s", count, hash); got != want {
				t.Errorf("%s %s from %d: got %s want %s", zone, unit, from, got, want)
			}
		}
	}
}

// boundariesOf returns the number and the hash of the boundaries from 1970 to 2100.
func boundariesOf(t *testing.T, unit calendar.Unit, zone string, from int) string {
	t.Helper()
	c, err := calendar.New(unit, zone, from)
	if err != nil {
		t.Fatal(err)
	}
	last := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	sum, count := sha256.New(), 0
	for _, boundary := c.Window(0); boundary < last; count++ {
		fmt.Fprintf(sum, "%d\n", boundary/1_000_000)
		begin, end := c.Window(boundary)
		if begin != boundary || end <= begin {
			t.Fatalf("%s: the window after %d is [%d, %d)", zone, boundary, begin, end)
		}
		if again, _ := c.Window(end - 1); again != begin {
			t.Fatalf("%s: the window of %d begins at %d want %d", zone, end-1, again, begin)
		}
		boundary = end
	}
	return fmt.Sprintf("%d %x", count, sum.Sum(nil))
}

func TestZoneRejectsNamesOfThisMachine(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Local", "/etc/localtime", "../Europe/Berlin", "right/UTC", "Europe//Berlin", "europe berlin", "Mars/Base"} {
		if _, err := calendar.Zone(name); err == nil {
			t.Errorf("Zone(%q): got no error want one", name)
		}
	}
}

func TestWindowOfThePresentDoesNotAllocate(t *testing.T) {
	c, err := calendar.New(calendar.Month, "America/New_York", 14)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	if got := testing.AllocsPerRun(100, func() { c.Window(now) }); got != 0 {
		t.Errorf("got %v allocations want 0", got)
	}
}
