package demo

import "testing"

// TestResults: the results of scenarios are computed from the recorded counts.
func TestResults(t *testing.T) {
	t.Parallel()
	j := &journal{seq: 120, tallies: [][]tally{make([]tally, 6), make([]tally, 6)}}
	for i, most := range []int64{13, 10, 20, 10, 11, 10} {
		j.tallies[0][i] = tally{allowed: most, denied: 60 - most, peak: peak{most: most}}
		j.tallies[1][i] = tally{allowed: 2 * most, denied: 5}
	}
	for name, c := range map[string]struct {
		text func(*journal) string
		want string
	}{
		"most": {mostResult(Settings{Rate: 10, PeriodMS: 4000}), "Fixed window allowed 20 requests within 4 s: twice the limit of 10.\n" +
			"Most in any 4 s for the others: Token bucket 13; Sliding window 11; Token bucket by interval, sliding log and leaky bucket 10."},
		"most, none above": {mostResult(Settings{Rate: 30, PeriodMS: 500}), "No algorithm allowed more than 30 in any 0.5 s.\n"},
		"burst": {burstResult(30, []int64{3, 0, 10, 0, 1, 0}), "Token bucket, token bucket by interval, fixed window, sliding log, " +
			"sliding window and leaky bucket allowed 10 of 30 simultaneous requests after the pause.\nThe others: none."},
		"servers": {serversResult, "With separate stores, two servers allowed 2.0 times as many requests as with one store.\n" +
			"Of 60 requests, one store allowed 10 to 20, separate stores 20 to 40."},
		"clients": {clientsResult("Hot key", "Other key"), "Hot key: 40 to 50 denied. Other key: 5 denied.\n" +
			"Allowed for each algorithm: hot key 10 to 20, other key 20 to 40."},
	} {
		if got := c.text(j); got != c.want {
			t.Errorf("%s: got %q want %q", name, got, c.want)
		}
	}
	empty := &journal{tallies: [][]tally{make([]tally, 6), make([]tally, 6)}}
	for _, text := range []func(*journal) string{mostResult(defaultSettings()), serversResult, clientsResult("a", "b")} {
		if got := text(empty); got != "" {
			t.Errorf("without requests: got %q want nothing", got)
		}
	}
}
