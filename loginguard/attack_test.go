package loginguard_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/loginguard"
)

// mustBound replays an attack for a day and compares what was admitted in its first hour, and in all of it, with what is
// documented.
func mustBound(t *testing.T, what string, a *greedy, wantHour, wantDay int) {
	t.Helper()
	a.now = noon
	if got := a.until(t, after(hour)); got != wantHour {
		t.Errorf("%s: %d tries in an hour; want %d", what, got, wantHour)
	}
	if got := a.until(t, after(day)); got != wantDay {
		t.Errorf("%s: %d tries in a day; want %d", what, got, wantDay)
	}
}

func TestBruteForceFromOneAddress(t *testing.T) {
	t.Parallel()
	g := mustNew(t, newMemory(t), nil)
	mustBound(t, "one account from one address", &greedy{guard: g, next: func(int) loginguard.Client {
		return loginguard.Client{Addr: host(1, 1), Account: "bob"}
	}}, 19, 111)
}

// One password, many accounts: each is tried once.
func TestSpraying(t *testing.T) {
	t.Parallel()
	t.Run("from one address", func(t *testing.T) {
		t.Parallel()
		g := mustNew(t, newMemory(t), nil)
		mustBound(t, "spraying from one address", &greedy{guard: g, next: func(try int) loginguard.Client {
			return loginguard.Client{Addr: host(1, 1), Account: name(try)}
		}}, 104, 200)
	})
	t.Run("from a /24", func(t *testing.T) {
		t.Parallel()
		g := mustNew(t, newMemory(t), nil)
		mustBound(t, "spraying from a /24", &greedy{guard: g, next: func(try int) loginguard.Client {
			return loginguard.Client{Addr: host(1, try%256), Account: name(try)}
		}}, 520, 1000)
	})
	t.Run("from a /48", func(t *testing.T) {
		t.Parallel()
		g := mustNew(t, newMemory(t), nil)
		mustBound(t, "spraying from a /48, each try from a /64 of its own", &greedy{guard: g, next: func(try int) loginguard.Client {
			return loginguard.Client{Addr: v6(byte(try>>8), byte(try)), Account: name(try)}
		}}, 520, 1000)
	})
}

// Names and passwords of another site's users, each pair once, from 10,000 addresses in 40 networks.
func TestStuffingFromManyAddresses(t *testing.T) {
	t.Parallel()
	networks := 40
	if testing.Short() {
		networks = 4
	}
	g := mustNew(t, newMemory(t), nil)
	inHour, inDay, account := 0, 0, 0
	for n := range networks {
		a := &greedy{guard: g, now: noon, next: func(try int) loginguard.Client {
			account++
			return loginguard.Client{Addr: host(n, try%250), Account: name(account)}
		}}
		inHour += a.until(t, after(hour))
		inDay += a.until(t, after(day))
	}
	if inHour != networks*520 || inDay != networks*1000 {
		t.Errorf("%d addresses in %d networks: %d tries in an hour and %d in a day; want %d and %d",
			networks*250, networks, inHour, inDay, networks*520, networks*1000)
	}
}

// The same, where Total bounds everybody who is not known.
func TestStuffingUnderATotal(t *testing.T) {
	t.Parallel()
	g := mustNew(t, newMemory(t), &loginguard.Options{
		Limits: loginguard.Limits{Total: headgate.MustPolicy("60/1h burst 30").Limits},
	})
	owner := loginguard.Client{Addr: host(99, 1), Account: "bob"}
	mustSucceed(t, noon, mustTry(t, g, noon, owner))
	mustBound(t, "10,000 addresses in 40 networks", &greedy{guard: g, next: func(try int) loginguard.Client {
		return loginguard.Client{Addr: host(try%40, try/40%250), Account: name(try)}
	}}, 90, 30+24*60)
	if a := mustTry(t, g, after(day), owner); !a.Allowed() {
		t.Errorf("the owner, from where he is known: denied by %v; want him allowed", a.DeniedBy())
	}
}

// owner logs in every ten minutes, and every other hour after mistyping three times, and must always get in at once.
func ownerLogsIn(t *testing.T, g *loginguard.Guard, now headgate.Instant, c loginguard.Client, round int) {
	t.Helper()
	if round%12 == 2 {
		for typo := range 3 {
			a := mustTry(t, g, now, c)
			if !a.Allowed() {
				t.Fatalf("round %d: the owner's mistake %d is denied by %v; want it allowed", round, typo+1, a.DeniedBy())
			}
			a.Failed()
		}
	}
	mustSucceed(t, now, mustTry(t, g, now, c))
}

// Many addresses, one account: the owner at home sees nothing of it; from a new address he waits as any stranger, unless his
// browser is known.
func TestManyAddressesOnOneAccount(t *testing.T) {
	t.Parallel()
	g := mustNew(t, newMemory(t), nil)
	home := loginguard.Client{Addr: host(200, 1), Account: "bob"}
	first := mustTry(t, g, noon-1, home)
	mustSucceed(t, noon-1, first)
	device := first.DeviceAt((noon - 1).Time())

	attack := &greedy{guard: g, now: noon, next: func(try int) loginguard.Client {
		return loginguard.Client{Addr: host(try%40, try/40%250), Account: "Bob "}
	}}
	end, inHour, round := after(day), 0, 0
	for now := noon; now <= end; now += headgate.Instant(10 * time.Minute / time.Microsecond) {
		tries := attack.until(t, now)
		if now <= after(hour) {
			inHour = tries
		}
		ownerLogsIn(t, g, now, home, round)
		round++
	}
	if inHour != 44 || attack.tries != 136 {
		t.Errorf("10,000 addresses on one account: %d tries in an hour, %d in a day; want 44 and 136", inHour, attack.tries)
	}

	away := loginguard.Client{Addr: host(300, 7), Account: "bob"}
	stranger := mustTry(t, g, end, away)
	if stranger.Allowed() || !slices.Equal(stranger.DeniedBy(), []string{"account"}) || stranger.RetryAfter() > 15*time.Minute {
		t.Errorf("the owner from a new address: allowed %v, denied by %v, for %v; want him denied by the account, for 15 min at most",
			stranger.Allowed(), stranger.DeniedBy(), stranger.RetryAfter())
	}
	away.Device = device
	mustSucceed(t, end, mustTry(t, g, end, away))
	away.Device = ""
	mustSucceed(t, end, mustTry(t, g, end, away)) // that address is known now

	calm := attack.now + headgate.Instant(15*time.Minute/time.Microsecond)
	mustSucceed(t, calm, mustTry(t, g, calm, loginguard.Client{Addr: host(301, 7), Account: "bob"}))
}

// Whatever happens on the address, the network and the account, a known pair answers for itself.
func TestKnownPairIsNotLockedOutByOthers(t *testing.T) {
	t.Parallel()
	g := mustNew(t, newMemory(t), nil)
	owner := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	mustSucceed(t, noon, mustTry(t, g, noon, owner))
	neighbour := &greedy{guard: g, now: noon, next: func(try int) loginguard.Client {
		return loginguard.Client{Addr: host(1, 1+try%2), Account: name(try)}
	}}
	neighbour.until(t, after(hour))
	for round := range 3 {
		ownerLogsIn(t, g, after(hour), owner, round)
	}
	// Somebody behind the same address who aims at the same account is the same pair: he is bounded, and the owner with him, but
	// for a browser that is known.
	inside := &greedy{guard: g, now: after(2 * hour), next: func(int) loginguard.Client { return owner }}
	first := mustTry(t, g, after(hour), owner)
	mustSucceed(t, after(hour), first)
	inside.until(t, after(3*hour))
	a := mustTry(t, g, after(3*hour), owner)
	if a.Allowed() || !slices.Equal(a.DeniedBy(), []string{"pair"}) || a.RetryAfter() > 15*time.Minute {
		t.Errorf("the owner beside an attacker: allowed %v, denied by %v for %v; want him denied by the pair",
			a.Allowed(), a.DeniedBy(), a.RetryAfter())
	}
	owner.Device = first.DeviceAt(after(hour).Time())
	ownerLogsIn(t, g, after(3*hour), owner, 2)
}

// What a known pair does wrong is not charged to others.
func TestMistypingAtHomeCostsNobodyElse(t *testing.T) {
	t.Parallel()
	g := mustNew(t, newMemory(t), nil)
	home := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	mustSucceed(t, noon, mustTry(t, g, noon, home))
	a := &greedy{guard: g, now: noon, next: func(int) loginguard.Client { return home }}
	a.until(t, after(hour))
	elsewhere := &greedy{guard: g, now: after(hour), next: func(try int) loginguard.Client {
		return loginguard.Client{Addr: host(2, try), Account: "bob"}
	}}
	elsewhere.step(t)
	if elsewhere.tries != 20 {
		t.Errorf("after failures at home, %d tries from elsewhere; want all 20 that are free", elsewhere.tries)
	}
}

func TestThreeTyposAreNotPunished(t *testing.T) {
	t.Parallel()
	g := mustNew(t, newMemory(t), nil)
	c := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	for d := range 30 { // every day, the first time as a stranger
		for round := range 3 {
			ownerLogsIn(t, g, after(time.Duration(d)*day), c, round)
		}
	}
}

// Many guesses at once get no further than one after another. They are given the time that a busy machine needs.
func mustBoundCrowd(t *testing.T, g *loginguard.Guard, size int, what string, want int64, next func(n int) loginguard.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var admitted atomic.Int64
	var wait sync.WaitGroup
	start := make(chan struct{})
	for n := range size {
		wait.Go(func() {
			<-start
			a, err := g.AttemptAt(ctx, noon.Time(), next(n))
			if err != nil {
				t.Errorf("%s: %v", what, err)
				return
			}
			if a.Allowed() {
				admitted.Add(1)
			}
		})
	}
	close(start)
	wait.Wait()
	if got := admitted.Load(); got != want {
		t.Errorf("%s: of %d guesses at once %d were admitted; want %d", what, size, got, want)
	}
}

func TestThousandGuessesAtOnce(t *testing.T) {
	t.Parallel()
	mustBoundCrowd(t, mustNew(t, newMemory(t), nil), 1000, "one pair", 5, func(int) loginguard.Client {
		return loginguard.Client{Addr: host(1, 1), Account: "bob"}
	})
	mustBoundCrowd(t, mustNew(t, newMemory(t), nil), 1000, "one account", 20, func(n int) loginguard.Client {
		return loginguard.Client{Addr: host(n, 1), Account: "bob"}
	})
	mustBoundCrowd(t, mustNew(t, newMemory(t), nil), 1000, "one address", 30, func(n int) loginguard.Client {
		return loginguard.Client{Addr: host(1, 1), Account: name(n)}
	})
	mustBoundCrowd(t, mustNew(t, newMemory(t), nil), 1000, "one network", 100, func(n int) loginguard.Client {
		return loginguard.Client{Addr: host(1, n%256), Account: name(n)}
	})
	g := mustNew(t, newMemory(t), nil)
	owner := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	mustSucceed(t, noon, mustTry(t, g, noon, owner))
	mustBoundCrowd(t, g, 1000, "a known pair", 5, func(int) loginguard.Client { return owner })
}
