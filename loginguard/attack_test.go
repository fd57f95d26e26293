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

// checkAllowed runs an attack for a day and compares the allowed attempts in the
// first hour and in the day with the documented numbers.
func checkAllowed(t *testing.T, what string, a *attacker, wantHour, wantDay int) {
	t.Helper()
	a.now = noon
	if got := a.runUntil(t, after(hour)); got != wantHour {
		t.Errorf("%s: %d attempts allowed in an hour; want %d", what, got, wantHour)
	}
	if got := a.runUntil(t, after(day)); got != wantDay {
		t.Errorf("%s: %d attempts allowed in a day; want %d", what, got, wantDay)
	}
}

func TestBruteForceFromOneAddress(t *testing.T) {
	t.Parallel()
	g := mustNew(t, newMemory(t), nil)
	checkAllowed(t, "one account from one address", &attacker{guard: g, next: func(int) loginguard.Client {
		return loginguard.Client{Addr: host(1, 1), Account: "bob"}
	}}, 19, 111)
}

// One password for many accounts: one attempt for each account.
func TestPasswordSpraying(t *testing.T) {
	t.Parallel()
	t.Run("from one address", func(t *testing.T) {
		t.Parallel()
		g := mustNew(t, newMemory(t), nil)
		checkAllowed(t, "spraying from one address", &attacker{guard: g, next: func(n int) loginguard.Client {
			return loginguard.Client{Addr: host(1, 1), Account: name(n)}
		}}, 104, 200)
	})
	t.Run("from a /24", func(t *testing.T) {
		t.Parallel()
		g := mustNew(t, newMemory(t), nil)
		checkAllowed(t, "spraying from a /24", &attacker{guard: g, next: func(n int) loginguard.Client {
			return loginguard.Client{Addr: host(1, n%256), Account: name(n)}
		}}, 520, 1000)
	})
	t.Run("from a /48", func(t *testing.T) {
		t.Parallel()
		g := mustNew(t, newMemory(t), nil)
		checkAllowed(t, "spraying from a /48, each attempt from its own /64", &attacker{guard: g, next: func(n int) loginguard.Client {
			return loginguard.Client{Addr: v6(byte(n>>8), byte(n)), Account: name(n)}
		}}, 520, 1000)
	})
}

// Leaked credentials, each pair once, from 10,000 addresses in 40 networks.
func TestCredentialStuffing(t *testing.T) {
	t.Parallel()
	networks := 40
	if testing.Short() {
		networks = 4
	}
	g := mustNew(t, newMemory(t), nil)
	inHour, inDay, account := 0, 0, 0
	for network := range networks {
		a := &attacker{guard: g, now: noon, next: func(n int) loginguard.Client {
			account++
			return loginguard.Client{Addr: host(network, n%250), Account: name(account)}
		}}
		inHour += a.runUntil(t, after(hour))
		inDay += a.runUntil(t, after(day))
	}
	if inHour != networks*520 || inDay != networks*1000 {
		t.Errorf("%d addresses in %d networks: %d attempts allowed in an hour and %d in a day; want %d and %d",
			networks*250, networks, inHour, inDay, networks*520, networks*1000)
	}
}

// TestCredentialStuffingWithTotal is TestCredentialStuffing with the option Total, which
// limits all unknown clients together.
func TestCredentialStuffingWithTotal(t *testing.T) {
	t.Parallel()
	g := mustNew(t, newMemory(t), &loginguard.Options{
		Limits: loginguard.Limits{Total: headgate.MustPolicy("60/1h burst 30").Limits},
	})
	owner := loginguard.Client{Addr: host(99, 1), Account: "bob"}
	mustSucceed(t, noon, mustAttempt(t, g, noon, owner))
	checkAllowed(t, "10,000 addresses in 40 networks", &attacker{guard: g, next: func(n int) loginguard.Client {
		return loginguard.Client{Addr: host(n%40, n/40%250), Account: name(n)}
	}}, 90, 30+24*60)
	if a := mustAttempt(t, g, after(day), owner); !a.Allowed() {
		t.Errorf("the owner from a known address: denied by %v; want allowed", a.DeniedBy())
	}
}

// ownerLogin logs in, in every twelfth round after three typos. All attempts must be
// allowed.
func ownerLogin(t *testing.T, g *loginguard.Guard, now headgate.Instant, c loginguard.Client, round int) {
	t.Helper()
	if round%12 == 2 {
		for typo := range 3 {
			a := mustAttempt(t, g, now, c)
			if !a.Allowed() {
				t.Fatalf("round %d: typo %d of the owner is denied by %v; want it allowed", round, typo+1, a.DeniedBy())
			}
			a.Failed()
		}
	}
	mustSucceed(t, now, mustAttempt(t, g, now, c))
}

// Many addresses attack one account. The owner is not affected at a known address. From
// a new address the owner has to wait like any other client, unless the browser is
// known.
func TestDistributedAttackOnOneAccount(t *testing.T) {
	t.Parallel()
	g := mustNew(t, newMemory(t), nil)
	home := loginguard.Client{Addr: host(200, 1), Account: "bob"}
	first := mustAttempt(t, g, noon-1, home)
	mustSucceed(t, noon-1, first)
	device := first.DeviceAt((noon - 1).Time())

	attack := &attacker{guard: g, now: noon, next: func(n int) loginguard.Client {
		return loginguard.Client{Addr: host(n%40, n/40%250), Account: "Bob "}
	}}
	end, inHour, round := after(day), 0, 0
	for now := noon; now <= end; now += headgate.Instant(10 * time.Minute / time.Microsecond) {
		allowed := attack.runUntil(t, now)
		if now <= after(hour) {
			inHour = allowed
		}
		ownerLogin(t, g, now, home, round)
		round++
	}
	if inHour != 44 || attack.allowed != 136 {
		t.Errorf("10,000 addresses on one account: %d attempts allowed in an hour, %d in a day; want 44 and 136", inHour, attack.allowed)
	}

	newAddr := loginguard.Client{Addr: host(300, 7), Account: "bob"}
	fromNew := mustAttempt(t, g, end, newAddr)
	if fromNew.Allowed() || !slices.Equal(fromNew.DeniedBy(), []string{"account"}) || fromNew.RetryAfter() > 15*time.Minute {
		t.Errorf("the owner from a new address: allowed %v, denied by %v, for %v; want it denied by the account, for at most 15 min",
			fromNew.Allowed(), fromNew.DeniedBy(), fromNew.RetryAfter())
	}
	newAddr.Device = device
	mustSucceed(t, end, mustAttempt(t, g, end, newAddr))
	newAddr.Device = ""
	mustSucceed(t, end, mustAttempt(t, g, end, newAddr)) // the address is known now

	later := attack.now + headgate.Instant(15*time.Minute/time.Microsecond)
	mustSucceed(t, later, mustAttempt(t, g, later, loginguard.Client{Addr: host(301, 7), Account: "bob"}))
}

// Failures on the address, the network and the account do not affect a known pair.
func TestKnownPairIsNotLockedOut(t *testing.T) {
	t.Parallel()
	g := mustNew(t, newMemory(t), nil)
	owner := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	mustSucceed(t, noon, mustAttempt(t, g, noon, owner))
	neighbour := &attacker{guard: g, now: noon, next: func(n int) loginguard.Client {
		return loginguard.Client{Addr: host(1, 1+n%2), Account: name(n)}
	}}
	neighbour.runUntil(t, after(hour))
	for round := range 3 {
		ownerLogin(t, g, after(hour), owner, round)
	}
	// An attacker with the same address on the same account is the same pair: the
	// attacker and the owner share its limits, except from a known browser.
	inside := &attacker{guard: g, now: after(2 * hour), next: func(int) loginguard.Client { return owner }}
	first := mustAttempt(t, g, after(hour), owner)
	mustSucceed(t, after(hour), first)
	inside.runUntil(t, after(3*hour))
	a := mustAttempt(t, g, after(3*hour), owner)
	if a.Allowed() || !slices.Equal(a.DeniedBy(), []string{"pair"}) || a.RetryAfter() > 15*time.Minute {
		t.Errorf("the owner at the attacker's address: allowed %v, denied by %v for %v; want denied by the pair",
			a.Allowed(), a.DeniedBy(), a.RetryAfter())
	}
	owner.Device = first.DeviceAt(after(hour).Time())
	ownerLogin(t, g, after(3*hour), owner, 2)
}

// Failures of a known pair are not charged to other clients.
func TestKnownPairFailuresAreNotShared(t *testing.T) {
	t.Parallel()
	g := mustNew(t, newMemory(t), nil)
	home := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	mustSucceed(t, noon, mustAttempt(t, g, noon, home))
	a := &attacker{guard: g, now: noon, next: func(int) loginguard.Client { return home }}
	a.runUntil(t, after(hour))
	elsewhere := &attacker{guard: g, now: after(hour), next: func(n int) loginguard.Client {
		return loginguard.Client{Addr: host(2, n), Account: "bob"}
	}}
	elsewhere.step(t)
	if elsewhere.allowed != 20 {
		t.Errorf("after failures of the known pair, %d attempts from other addresses; want all 20 free ones", elsewhere.allowed)
	}
}

func TestThreeTyposAreAllowed(t *testing.T) {
	t.Parallel()
	g := mustNew(t, newMemory(t), nil)
	c := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	for d := range 30 { // every day; the address is unknown the first time
		for round := range 3 {
			ownerLogin(t, g, after(time.Duration(d)*day), c, round)
		}
	}
}

// checkConcurrent checks that concurrent guesses get no further than sequential ones.
// Its timeout suits a busy machine.
func checkConcurrent(t *testing.T, g *loginguard.Guard, size int, what string, want int64, next func(n int) loginguard.Client) {
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
		t.Errorf("%s: of %d concurrent guesses %d were allowed; want %d", what, size, got, want)
	}
}

func TestConcurrentGuesses(t *testing.T) {
	t.Parallel()
	checkConcurrent(t, mustNew(t, newMemory(t), nil), 1000, "one pair", 5, func(int) loginguard.Client {
		return loginguard.Client{Addr: host(1, 1), Account: "bob"}
	})
	checkConcurrent(t, mustNew(t, newMemory(t), nil), 1000, "one account", 20, func(n int) loginguard.Client {
		return loginguard.Client{Addr: host(n, 1), Account: "bob"}
	})
	checkConcurrent(t, mustNew(t, newMemory(t), nil), 1000, "one address", 30, func(n int) loginguard.Client {
		return loginguard.Client{Addr: host(1, 1), Account: name(n)}
	})
	checkConcurrent(t, mustNew(t, newMemory(t), nil), 1000, "one network", 100, func(n int) loginguard.Client {
		return loginguard.Client{Addr: host(1, n%256), Account: name(n)}
	})
	g := mustNew(t, newMemory(t), nil)
	owner := loginguard.Client{Addr: host(1, 1), Account: "bob"}
	mustSucceed(t, noon, mustAttempt(t, g, noon, owner))
	checkConcurrent(t, g, 1000, "a known pair", 5, func(int) loginguard.Client { return owner })
}
