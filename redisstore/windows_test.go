package redisstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

// The server's clock decides in which window of the calendar a request is, whatever clock
// the process has. All processes therefore count in the same windows. // T15
func TestCalendarUsesServerClock(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	const year = 366 * 24 * time.Hour
	for i, shifts := range [][]time.Duration{{year, 0}, {-year, 2 * year}, {0, -40 * year}} {
		for _, text := range []string{"6/year in Asia/Kathmandu", "6/month", "6/quarter in America/New_York", "6/365d"} {
			var all []*headgate.Limiter
			for _, shift := range shifts {
				store := open(t, "redis://"+server.Addr(), &redisstore.Options{Timeout: longTimeout, DenialCacheTTL: -1})
				redisstore.ShiftClock(store, shift)
				all = append(all, limiter(t, store, fmt.Sprint(i, text), headgate.CalendarWindow, text))
			}
			for n := range 7 {
				d, err := all[n%2].Allow(t.Context(), "key")
				if err != nil {
					t.Fatal(err)
				}
				if want := int64(max(0, 5-n)); d.Allowed != (n < 6) || d.Remaining != want || d.ResetAfter <= 0 {
					t.Errorf("%s, clocks differ by %v, request %d: got %+v want %d remaining", text, shifts, n+1, d, want)
				}
			}
		}
	}
}

// The difference of the clocks is remembered, so it costs one call.
func TestClockDifferenceIsRemembered(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	store := open(t, "redis://"+server.Addr(), &redisstore.Options{Timeout: longTimeout})
	redisstore.ShiftClock(store, 40*24*time.Hour)
	l := limiter(t, store, "policy", headgate.CalendarWindow, "6/day in Europe/Berlin")
	if _, err := l.Allow(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	if shift := redisstore.ClockShift(store).Abs(); shift > time.Hour {
		t.Errorf("got a difference of %v want less than an hour", shift)
	}
}
