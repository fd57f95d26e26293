// Package memstore provides an in-process [headgate.Store] with bounded memory. [New]
// starts no goroutine. [Open] returns a store whose state survives a restart. A
// decision about a key that the store already contains takes no mutex and allocates
// nothing. (Sliding logs, and requests that check several limits, take the mutex of
// each shard that they use.)
//
// # Memory layout
//
// The state of a key takes 32 bytes in a hash table without pointers. The store
// identifies a key by a keyed 128-bit hash and does not keep the key's text. The table
// grows in three steps (1/256, 1/16 and all of its maximum size), so a small program
// uses little memory. Sliding logs are lists of entries and are stored separately: 64
// bytes for a key that was used once, and 128 bytes and 16 for each entry for others.
//
// # Behaviour when the store is full
//
// State that has expired is evicted when room is needed. State has expired when the key
// has fully recovered, so evicting it does not change any decision. State that has not
// expired is never evicted: a client can't get an unused bucket by filling the store.
// If there is no free slot for a new key, the key shares an overflow bucket with other
// keys of the same rule until a slot is free. Each rule has 64 overflow buckets. When
// the key gets a slot, its state starts as a copy of the overflow bucket's state. The
// units spent from an overflow bucket include all units that each of its keys has spent
// there, so:
//
//   - a key that has a slot gets exact decisions, whatever other keys do;
//   - a key without a slot is never allowed more than its limit, and may be allowed
//     less. (A change of the limit affects the state of an overflow bucket as it
//     affects any other state; see package algo.)
//
// If there is no room for the overflow bucket either, calls return
// [headgate.ErrStoreFull]. The table of the overflow buckets is sized for 1/32 of the
// configured number of keys.
//
// # Time
//
// The store's clock is the wall clock at the creation of the store plus the monotonic
// clock since then, so later adjustments of the wall clock do not affect it. Calls with
// an explicit instant use that instant instead.
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
// no bound. A full store then uses about 39 MB for all algorithms except sliding logs,
// and up to 80 MB more for sliding logs. (The garbage collector may need as much
// again.)
const DefaultMaxEntries = 1_000_000

// Options limits the memory of a store. A field that is zero sets no bound; if both
// fields are zero, MaxEntries is [DefaultMaxEntries]. If both are set, the smaller of
// the two resulting sizes applies.
type Options struct {
	// MaxEntries is the number of keys that the store is sized for. The table is sized
	// for a load of 85 %, so up to a sixth more keys fit. For sliding logs there is
	// separate room of 64 bytes times MaxEntries: for the same number of keys that are
	// used once, or for a third of them with two to four entries each, or for fewer keys
	// with more entries. A client under two limits is two keys.
	MaxEntries int
	// MaxBytes is the maximum memory for all state, in bytes; at least 64 KiB. Three
	// tenths of it are reserved for sliding logs, and six tenths for all other keys.
	MaxBytes int64
}

const (
	minBytes = 64 << 10
	// fixedBytes is the part of MaxBytes that is set aside for rounding and for the
	// overflow buckets and overflow logs that even the smallest store has.
	fixedBytes = 24 << 10
	// keyBytes is the memory that one key needs: a slot in a table with a load of 0.85
	// (37.7), and a share of the overflow buckets' table (1.2).
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

// sizes returns the number of keys that the tables are sized for, and the maximum
// memory of the sliding logs in bytes. Of MaxBytes, 56 % are used for the tables, 30 %
// for sliding logs, and up to 9 % for overflow logs.
func (o Options) sizes() (keys int, logBytes int64) {
	keys, logBytes = o.MaxEntries, int64(o.MaxEntries)*singleBytes
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
		return DefaultMaxEntries, DefaultMaxEntries * singleBytes
	}
	return keys, logBytes
}

// Store is a [headgate.Store] in the memory of this process. It is safe for concurrent
// use.
type Store struct {
	secret     hashKey
	clock      clock
	keys       region
	overflow   region     // overflow buckets, shared by keys without a slot
	overflowMu sync.Mutex // locked before the mutexes of several shards of overflow
	logs       logRegion
	holds      holdRegion
	documents  documents
	overflowed atomic.Uint64 // number of decisions made on an overflow bucket or log
	closed     atomic.Bool
	size       int    // number of keys that the tables are sized for
	saver      *saver // saves the state in a folder; nil if the state is only in memory
}

// New returns an empty store; nil opts mean all defaults. New panics if
// [Options.Validate] returns an error, so call Validate first for options that come
// from outside the program.
func New(opts *Options) *Store { return newStore(opts, newSecret()) }

// newSecret returns a random secret.
func newSecret() hashKey {
	var secret [16]byte
	if _, err := rand.Read(secret[:]); err != nil {
		panic(err) // unreachable: on an error, crypto/rand itself ends the program
	}
	return hashKey{binary.LittleEndian.Uint64(secret[:8]), binary.LittleEndian.Uint64(secret[8:])}
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
	return newSized(n, logBytes, secret)
}

// newSized returns a store for n keys, with a maximum memory of the sliding logs.
func newSized(n int, logBytes int64, secret hashKey) *Store {
	s := &Store{
		secret:   secret,
		size:     n,
		keys:     newRegion(n),
		overflow: newRegion(n/overflowFraction + overflowBuckets),
	}
	for i := range s.overflow.shards {
		s.overflow.shards[i].isOverflow = true
	}
	s.clock.init()
	s.logs.init(n, logBytes)
	s.logs.dropHolds = s.dropExpiredHolds
	s.holds.shardList = newShardList[holdShard](n)
	s.keys.freeHeldSlots(s.freeHeldSlot)
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
		store:     s,
		secret:    scope,
		overflow:  scope.derive("spare"),
		deniedBy:  []string{rule.Name},
		holds:     rule.Holds.WithDefaults(a.Name),
		ruleLimit: rule.Limit,
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
	corrector, _ := step.(algo.Corrector)
	limit := step.Answer(algo.State{}, 0, 0, 0, true).Limit
	return &slotBound{
		ruleState: common, step: step, reserver: booker, rephaser: phased, corrector: corrector,
		canHold: a.Name.CanHold(), canLease: a.Name.CanLease(), onlyHolds: a.Name.OnlyHolds(), limit: limit,
	}, nil
}

// ruleState is the part of a bound rule that all algorithms share.
type ruleState struct {
	store     *Store
	secret    hashKey // secret of the digests of keys
	overflow  hashKey // secret of the digests of overflow buckets
	deniedBy  []string
	holds     headgate.HoldSettings
	ruleLimit headgate.Limit
}

// overflowDigest returns the digest of the overflow bucket that belongs to the key with
// digest d.
func (r *ruleState) overflowDigest(d digest) digest {
	return r.overflow.sum(string([]byte{byte(d.lo % overflowBuckets)}))
}

// withDeniedBy returns d, with DeniedBy set if d is a denial.
func (r *ruleState) withDeniedBy(d headgate.Decision) headgate.Decision {
	if !d.Allowed {
		d.DeniedBy = r.deniedBy
	}
	return d
}

// Shared returns false because only this process uses the state; see [headgate.Shared].
func (s *Store) Shared() bool { return false }

// Close makes every later call return [headgate.ErrClosed]. If the store has a folder,
// Close saves the state, and returns an error if that fails; see [Open].
func (s *Store) Close() error {
	s.closed.Store(true)
	if s.saver != nil {
		return s.saver.close()
	}
	return nil
}

// Stats is the use of a store's memory at one moment.
type Stats struct {
	Keys       int   // stored keys and overflow buckets, including expired ones
	LogEntries int   // entries for which sliding logs have allocated memory
	Holds      int   // holds that are open, or that have ended before their deadline
	Bytes      int64 // memory allocated for state, in bytes
	// Overflowed is the number of decisions, since the creation of the store, for keys
	// that found no room and shared an overflow bucket.
	Overflowed uint64
}

// Stats returns the current numbers. It locks the shards one after another.
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
	logs := s.logs.stats()
	st.Keys += logs.singles + logs.keys
	st.LogEntries = logs.singles + logs.entries
	holds, bytes := s.holds.stats()
	st.Holds = holds
	st.Bytes += logs.bytes() + bytes
	return st
}
