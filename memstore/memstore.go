// Package memstore provides an in-process [headgate.Store] with bounded memory. It
// starts no goroutine. A decision about a known key takes no lock and allocates
// nothing. (Sliding logs, and requests with several limits, take the lock of a shard.)
//
// # Memory layout
//
// The state of a key takes 32 bytes in a hash table of fixed layout. The store
// identifies a key by a keyed 128-bit hash and does not keep its text. The table is
// allocated in three steps (1/256, 1/16 and all of its maximum size), so a small
// program uses little memory. Sliding logs are lists of entries and are stored
// separately.
//
// # Behaviour when the store is full
//
// Expired state is evicted when room is needed. State is expired once the key has fully
// recovered, so that evicting it does not change any answer. State that still counts is
// never evicted: a client can't get an unused bucket by filling the store. A key that
// finds no free slot shares an overflow bucket with other keys of the same rule (64 for
// each rule) until a slot is free. It then takes over the state of the overflow bucket.
// The units spent from an overflow bucket include the units that each of its keys spent
// there, so:
//
//   - a key that has a slot is answered exactly, whatever other keys do;
//   - a key without a slot is never admitted more than its limit, and may be admitted
//     less. (A limit that changes in the meantime reduces an overflow bucket as it does
//     any other; see package algo.)
//
// If the overflow buckets find no room either (their table has 1/32 of the configured
// number of keys), calls return [headgate.ErrStoreFull].
//
// # Time
//
// The store's clock is the wall clock at the creation of the store plus the monotonic
// clock since then, so it does not step. Calls with an explicit instant use that
// instant instead.
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

// DefaultMaxEntries is the number of keys that a store is sized for if [Options] sets
// no bound: about 38 MB when the store is full.
const DefaultMaxEntries = 1_000_000

// Options bounds the memory of a store. A field that is zero sets no bound; if both
// fields are zero, MaxEntries is [DefaultMaxEntries]. If both are set, the tighter
// bound applies.
type Options struct {
	// MaxEntries is the number of keys that the store is sized for. The table is sized
	// for a load of 85 %, so up to a sixth more keys fit. Sliding logs have room for
	// the same number of keys with four entries each, or for fewer keys with more
	// entries.
	MaxEntries int
	// MaxBytes is the maximum memory for all state, in bytes; at least 64 KiB. Sliding
	// logs have 3 tenths of it to themselves, and all other keys 6.
	MaxBytes int64
}

const (
	minBytes = 64 << 10
	// fixedBytes are for rounding and for the overflow buckets and logs of even the
	// smallest store.
	fixedBytes = 24 << 10
	// keyBytes is a slot at load 0.85 (37.7) and its share of the overflow buckets
	// (1.2).
	keyBytes = 39
)

// Validate returns an error if a bound is outside its range.
func (o Options) Validate() error {
	if o.MaxEntries < 0 || o.MaxEntries > math.MaxInt32 {
		return fmt.Errorf("memstore: MaxEntries is %d; must be 1 to 2147483647 (0 selects the default)", o.MaxEntries)
	}
	if o.MaxBytes != 0 && o.MaxBytes < minBytes {
		return fmt.Errorf("memstore: MaxBytes is %d; must be %d or more (0 sets no bound in bytes)", o.MaxBytes, minBytes)
	}
	return nil
}

// sizes returns the number of keys that the tables are sized for, and the budget of the
// sliding logs in bytes. Of MaxBytes, 56 % are for the tables, 30 % for sliding logs,
// and up to 9 % for overflow logs.
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

// Store is a [headgate.Store] in the memory of this process. It is safe for concurrent
// use.
type Store struct {
	secret     hashKey
	clock      clock
	keys       region
	overflow   region     // buckets shared by keys without a slot
	overflowMu sync.Mutex // taken before the locks of several shards of overflow
	logs       logRegion
	overflowed atomic.Uint64 // decisions made on an overflow bucket
	closed     atomic.Bool
}

// New returns an empty store; nil options mean all defaults. It panics if
// [Options.Validate] returns an error, so validate options that come from outside the
// program first.
func New(opts *Options) *Store {
	var secret [16]byte
	if _, err := rand.Read(secret[:]); err != nil {
		panic(err) // unreachable: crypto/rand ends the program itself
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
		secret:   secret,
		keys:     newRegion(n),
		overflow: newRegion(n/overflowFraction + overflowBuckets),
	}
	s.clock.init()
	s.logs.init(n, logBytes)
	return s
}

func (s *Store) instant(t headgate.Instant) int64 {
	if t == headgate.StoreClock {
		return s.clock.micros()
	}
	return int64(t)
}

// Bind prepares a rule for use; see [headgate.Store].
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
		overflow: scope.derive("spare"),
		deniedBy: []string{rule.Name},
	}
	if a.NewLog != nil {
		step, err := a.NewLog(rule.Limit)
		if err != nil {
			return nil, err
		}
		return &logBound{ruleState: common, step: step, limit: rule.Limit.Rate}, nil
	}
	step, err := a.New(rule.Limit)
	if err != nil {
		return nil, err
	}
	booker, _ := step.(algo.Reserver)
	phased, _ := step.(algo.Rephaser)
	limit := step.Answer(algo.State{}, 0, 0, 0, true).Limit
	return &slotBound{ruleState: common, step: step, reserver: booker, rephaser: phased, limit: limit}, nil
}

// ruleState is the part of a bound rule that all algorithms share.
type ruleState struct {
	store    *Store
	secret   hashKey // for the digests of keys
	overflow hashKey // for the digests of overflow buckets
	deniedBy []string
}

// overflowDigest returns the digest of the overflow bucket that a key shares.
func (r *ruleState) overflowDigest(d digest) digest {
	return r.overflow.sum(string([]byte{byte(d.lo % overflowBuckets)}))
}

// withDeniedBy sets DeniedBy in a denial.
func (r *ruleState) withDeniedBy(d headgate.Decision) headgate.Decision {
	if !d.Allowed {
		d.DeniedBy = r.deniedBy
	}
	return d
}

// Shared returns false because only this process uses the state; see [headgate.Shared].
func (s *Store) Shared() bool { return false }

// Close makes every later call return [headgate.ErrClosed]. The store has no goroutine
// and nothing else to release.
func (s *Store) Close() error {
	s.closed.Store(true)
	return nil
}

// Stats describes a store at one moment.
type Stats struct {
	Keys       int   // slots in use, including those of expired keys
	LogEntries int   // allocated entries of sliding logs
	Bytes      int64 // memory allocated for state, in bytes
	// Overflowed is the number of decisions so far for keys that found no room and
	// shared an overflow bucket.
	Overflowed uint64
}

// Stats returns the current counts. It takes the lock of each shard in turn.
func (s *Store) Stats() Stats {
	st := Stats{Overflowed: s.overflowed.Load()}
	for _, r := range [...]*region{&s.keys, &s.overflow} {
		for i := range r.shards {
			sh := &r.shards[i]
			sh.mu.Lock()
			st.Keys += sh.used
			sh.mu.Unlock()
		}
		st.Bytes += r.bytes()
	}
	keys, entries := s.logs.count()
	st.Keys += keys
	st.LogEntries = entries
	st.Bytes += int64(keys)*logKeyBytes + int64(entries)*logEntryBytes
	return st
}
