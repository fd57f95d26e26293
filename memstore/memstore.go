// Package memstore is the embedded store: bounded memory, no goroutine, and no lock and no allocation on the path of a decision
// about a key that it knows. (Sliding logs, and several limits on one request, take the lock of a shard.)
//
// # What is kept
//
// A key's state takes 32 bytes in a table of fixed layout; the key itself is known by a keyed hash of 128 bits, so no text is
// kept. The table is allocated in three steps (1/256, 1/16 and all of its bound), so a small program pays little. Sliding logs
// are lists and kept apart.
//
// # What happens when it is full
//
// State that is as if never used is dropped, when room is needed; it would not change an answer. State in debt is never
// dropped: nobody gets a fresh bucket by making the store forget. A key that finds no room shares a spare bucket with others
// of the same rule (there are 64 for each rule), until a place is free; it then takes the spare bucket's state along. What a
// spare bucket has spent includes what each of its keys has spent there, so:
//
//   - a key that has a place is answered exactly, whatever others do;
//   - a key without one is never admitted more than its limit, and may be admitted less. (A limit that is changed meanwhile cuts
//     a spare bucket down as it does any other; see package algo.)
//
// When even the spare buckets find no room (they need a table of their own, 1/32 of the bound) the answer is
// [headgate.ErrStoreFull].
//
// # Time
//
// The store's clock is the wall clock at its making and the monotonic clock since, so it does not step. Calls with an instant
// use that instead.
package memstore

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// DefaultMaxEntries is the number of keys that a store is made for when nothing else is said: about 38 MB when it is full.
const DefaultMaxEntries = 1_000_000

// Options bound a store. The zero value of a field means that it does not bound; if none does, MaxEntries is
// [DefaultMaxEntries]. With both set the tighter one counts.
type Options struct {
	// MaxEntries is the number of keys the store is made for: it has room for so many and, since its table is made 85 % full,
	// for up to a sixth more. Sliding logs have room for so many keys with four entries each, or for fewer with more.
	MaxEntries int
	// MaxBytes is the most memory for all state, in bytes; at least 64 KiB. Sliding logs have 3 tenths of it to themselves, and
	// all other keys 6.
	MaxBytes int64
}

const (
	minBytes   = 64 << 10
	fixedBytes = 24 << 10 // spare buckets and logs that even the smallest store has, and rounding
	keyBytes   = 39       // a slot at load 0.85 (37.7) and its part of the spare buckets (1.2)
)

// Validate reports a bound that cannot be kept.
func (o Options) Validate() error {
	if o.MaxEntries < 0 || o.MaxEntries > math.MaxInt32 {
		return fmt.Errorf("memstore: MaxEntries is %d; accepted are 1 to 2147483647, and 0 for the default", o.MaxEntries)
	}
	if o.MaxBytes != 0 && o.MaxBytes < minBytes {
		return fmt.Errorf("memstore: MaxBytes is %d; accepted are %d and more, and 0 for no bound in bytes", o.MaxBytes, minBytes)
	}
	return nil
}

// sizes are the keys that the tables are made for, and the bytes of sliding logs. Of bytes, 56 % are for the tables, 30 % for
// logs, and up to 9 % for spare logs.
func (o Options) sizes() (keys int, logBytes int64) {
	keys, logBytes = o.MaxEntries, int64(o.MaxEntries)*newLogBytes
	if o.MaxBytes > 0 {
		usable := min(o.MaxBytes, 1<<48) - fixedBytes
		fit, fitLogs := int(min(usable*56/100/keyBytes, math.MaxInt32)), usable*30/100
		if keys == 0 || fit < keys {
			keys = fit
		}
		if logBytes == 0 || fitLogs < logBytes {
			logBytes = fitLogs
		}
	}
	if keys == 0 {
		return DefaultMaxEntries, DefaultMaxEntries * newLogBytes
	}
	return keys, logBytes
}

// Store is a [headgate.Store] in the memory of this process. It is safe for concurrent use.
type Store struct {
	secret  hashKey
	clock   clock
	keys    region
	spare   region     // the buckets that keys without a place share
	spareMu sync.Mutex // held by a transaction that takes locks of several shards of spare
	logs    logRegion
	spilled atomic.Uint64 // decisions made on a spare bucket
	closed  atomic.Bool
}

// New makes an empty store; nil means all defaults. It panics where [Options.Validate] reports an error: a bound that comes
// from outside the program should be validated first.
func New(opts *Options) *Store {
	var secret [16]byte
	if _, err := rand.Read(secret[:]); err != nil {
		panic(err) // never happens: crypto/rand ends the program itself
	}
	return newStore(opts, hashKey{binary.LittleEndian.Uint64(secret[:8]), binary.LittleEndian.Uint64(secret[8:])})
}

func newStore(opts *Options, secret hashKey) *Store {
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := o.Validate(); err != nil {
		panic(err)
	}
	n, logBytes := o.sizes()
	s := &Store{
		secret: secret,
		keys:   newRegion(n),
		spare:  newRegion(n/spareShare + spareBuckets),
	}
	s.clock.start()
	s.logs.init(n, logBytes)
	return s
}

func (s *Store) instant(t headgate.Instant) int64 {
	if t == headgate.StoreClock {
		return s.clock.micros()
	}
	return int64(t)
}

// Bind makes a rule ready for use; see [headgate.Store].
func (s *Store) Bind(rule headgate.Rule) (headgate.Bound, error) {
	if s.closed.Load() {
		return nil, headgate.ErrClosed
	}
	a, err := algo.Named(rule.Algorithm)
	if err != nil {
		return nil, err
	}
	scope := s.secret.derive(string(a.Name) + "\x00" + rule.Scope)
	common := ruleState{
		store:    s,
		secret:   scope,
		spare:    scope.derive("spare"),
		deniedBy: []string{rule.Name},
	}
	if a.NewLog != nil {
		step, err := a.NewLog(rule.Limit)
		if err != nil {
			return nil, err
		}
		return &logGate{ruleState: common, step: step, limit: rule.Limit.Rate}, nil
	}
	step, err := a.New(rule.Limit)
	if err != nil {
		return nil, err
	}
	booker, _ := step.(algo.Reserver)
	phased, _ := step.(algo.Rephaser)
	limit := step.Answer(algo.State{}, 0, 0, 0, true).Limit
	return &gate{ruleState: common, step: step, booker: booker, phased: phased, limit: limit}, nil
}

// ruleState is what the store keeps with every bound rule.
type ruleState struct {
	store    *Store
	secret   hashKey // for digests of keys
	spare    hashKey // for digests of spare buckets
	deniedBy []string
}

// spareDigest is the spare bucket of a key.
func (r *ruleState) spareDigest(d digest) digest {
	return r.spare.sum(string([]byte{byte(d.lo % spareBuckets)}))
}

func (r *ruleState) named(d headgate.Decision) headgate.Decision {
	if !d.Allowed {
		d.DeniedBy = r.deniedBy
	}
	return d
}

// Shared returns false: the state is this process' alone; see [headgate.Shared].
func (s *Store) Shared() bool { return false }

// Close makes every later call answer [headgate.ErrClosed]. The store has no goroutine and nothing else to release.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}

// Stats describe a store at one moment.
type Stats struct {
	Keys       int    // places taken, also by keys that are as if never used
	LogEntries int    // entries that memory is held for in sliding logs
	Bytes      int64  // memory held for state, in bytes
	Overflowed uint64 // decisions so far for keys that found no room and shared a spare bucket
}

// Stats counts what the store holds. It takes each shard's lock in turn.
func (s *Store) Stats() Stats {
	st := Stats{Overflowed: s.spilled.Load()}
	for _, r := range [...]*region{&s.keys, &s.spare} {
		for i := range r.shards {
			sh := &r.shards[i]
			sh.mu.Lock()
			st.Keys += sh.used
			sh.mu.Unlock()
		}
		st.Bytes += r.bytes()
	}
	keys, entries := s.logs.held()
	st.Keys += keys
	st.LogEntries = entries
	st.Bytes += int64(keys)*logKeyBytes + int64(entries)*logEntryBytes
	return st
}
