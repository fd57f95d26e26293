package memcachedstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// round is one operation on the keys of a group: all of them are read, the jobs are applied in order, and what has changed is
// written by add or cas. If another process was there in between the jobs are applied anew to what it left. Several keys are
// written one after another; once the first is, the round keeps its instant and answers for what it wrote: it writes the rest, or
// gives it back.
type round struct {
	store *Store
	group *group
	jobs  []*job

	cells    []*cell
	taken    []*job // whose callers are still there
	clock    int64
	earliest int64 // of the instants that the jobs are decided at
	latest   int64
	passedIn bool // one of them came from a caller
}

func (r *round) run() error {
	r.cells = make([]*cell, len(r.group.keys))
	for i, key := range r.group.keys {
		r.cells[i] = &cell{key: key, name: r.group.names[i]}
	}
	err := r.tryOften()
	kept := false
	for _, c := range r.cells {
		if err != nil {
			c.next = spent{}
			r.correct(c, nil)
			kept = kept || c.written && (c.left == nil || c.moved)
		}
		r.giveBack(c)
	}
	if kept {
		return errKept(err)
	}
	return err
}

func (r *round) tryOften() error {
	for try := range r.store.options.MaxTries {
		if try > 0 && !r.store.pause(try) || !r.store.enter(r.group.line) {
			return headgate.ErrClosed
		}
		done, err := r.attempt()
		r.store.exit(r.group.line)
		if done || err != nil {
			return err
		}
	}
	return errContended(r.store.options.MaxTries)
}

// begun reports whether something was written.
func (r *round) begun() bool {
	for _, c := range r.cells {
		if c.written {
			return true
		}
	}
	return false
}

// attempt is not done when another process was faster.
func (r *round) attempt() (done bool, err error) {
	if !r.awaited() {
		return true, nil
	}
	if err := r.read(); err != nil {
		return false, err
	}
	if r.begun() {
		r.taken = slices.DeleteFunc(r.taken, (*job).denied)
	} else {
		r.begin()
	}
	for _, j := range r.taken {
		j.apply(r.cells, r.clock)
	}
	done, err = r.write()
	if !done && err == nil && !r.begun() {
		for _, j := range r.taken {
			j.putBack()
		}
	}
	return done, err
}

// awaited reports whether any caller is still there.
func (r *round) awaited() bool {
	for _, j := range r.jobs {
		if j.stage.Load() != withdrawn {
			return true
		}
	}
	return false
}

// begin takes up the jobs that nobody has withdrawn: from here on something may be spent.
func (r *round) begin() {
	r.clock = time.Now().UnixMicro()
	r.taken, r.earliest, r.latest, r.passedIn = r.taken[:0], math.MaxInt64, 0, false
	for _, j := range r.jobs {
		if !j.take() {
			continue
		}
		r.taken = append(r.taken, j)
		r.earliest, r.latest = min(r.earliest, j.instant(r.clock)), max(r.latest, j.instant(r.clock))
		r.passedIn = r.passedIn || j.now != headgate.StoreClock
	}
}

// read gets what lies under the keys, but for those that this round has written: they are decided anew from what was there before.
func (r *round) read() error {
	var names []string
	for _, c := range r.cells {
		if !c.written {
			names = append(names, c.name)
		}
	}
	items, err := r.fetch(names)
	if err != nil {
		return err
	}
	for i, c := range r.cells {
		if !c.written {
			if err := c.take(items[c.name]); err != nil {
				return err
			}
		}
		if c.decode(r.group.logs[i]) != nil {
			return errForeignValue()
		}
	}
	return nil
}

// fetch reads a single key together with others of the same server. Logs may be long, and go alone.
func (r *round) fetch(names []string) (map[string]*memcache.Item, error) {
	if len(r.group.names) != 1 || r.group.logs[0] || r.store.servers == nil {
		return r.store.fetch(names)
	}
	item, err := r.store.readOne(r.group.line, names[0])
	return map[string]*memcache.Item{names[0]: item}, err
}

// take is what was read of a cell; nil if there was nothing.
func (c *cell) take(item *memcache.Item) error {
	c.raw, c.casID = nil, 0
	if item == nil {
		return nil
	}
	if c.raw, c.casID = item.Value, item.CasID; c.casID == 0 {
		return errWithoutCAS()
	}
	return nil
}

// write makes what lies under the keys what the jobs left in the cells. It is not done when one of them has changed meanwhile.
func (r *round) write() (done bool, err error) {
	for _, c := range r.cells {
		value := r.wanted(c)
		if c.written {
			r.correct(c, value)
			continue
		}
		if value == nil {
			continue
		}
		err := r.put(c, value)
		if conflict(err) {
			return false, nil
		}
		if err != nil {
			return false, r.store.lost(err)
		}
		c.written, c.left, c.spent = true, value, c.next
	}
	return true, nil
}

// wanted is what is to lie under a cell's key; nil if that is what was read. What is as if never used is not written where nothing
// is.
func (r *round) wanted(c *cell) []byte {
	if !c.dirty || c.raw == nil && c.until <= r.earliest {
		return nil
	}
	value := c.value()
	if bytes.Equal(value, c.raw) {
		return nil
	}
	return value
}

// put writes a value over what was read. It is sent once, whatever becomes of it; a state goes together with others, and a log, which
// may be long, alone.
func (r *round) put(c *cell, value []byte) error {
	until := int64(binary.BigEndian.Uint64(value[1:]))
	item := &memcache.Item{
		Key: c.name, Value: value, CasID: c.casID,
		Expiration: expiration(lifeOf(until, r.earliest, r.passedIn), time.Now().Unix()),
	}
	r.store.written.note(c.key)
	client := r.store.writer
	if value[0] == formatLog {
		client = r.store.client
	}
	if c.raw == nil {
		return client.Add(item)
	}
	return client.CompareAndSwap(item)
}

// conflict reports that another process has written, or the server has forgotten, what was read.
func conflict(err error) bool {
	return errors.Is(err, memcache.ErrCASConflict) || errors.Is(err, memcache.ErrNotStored) || errors.Is(err, memcache.ErrCacheMiss)
}

// correct replaces what this round wrote by another value, or by what was there before if that is nil: but only while it is
// exactly what the round wrote. If somebody has spent since, giveBack sees to it once the round is over; if the server does not
// answer it stays.
func (r *round) correct(c *cell, value []byte) {
	if !c.written || c.left == nil || c.moved {
		return
	}
	if value == nil {
		value = c.before()
	}
	if bytes.Equal(value, c.left) {
		return
	}
	now, err := r.present(c)
	if err == nil && bytes.Equal(now.raw, c.left) {
		err = r.put(now, value)
	} else if err == nil {
		err = memcache.ErrCASConflict
	}
	switch {
	case err == nil:
		c.left, c.spent = value, c.next
	case conflict(err):
		c.moved = true
	default:
		c.left = nil
	}
}

// present is what lies under a cell's key now.
func (r *round) present(c *cell) (*cell, error) {
	now := &cell{key: c.key, name: c.name}
	items, err := r.store.fetch([]string{c.name})
	if err != nil {
		return nil, err
	}
	return now, now.take(items[c.name])
}

// before is what lay under the key before this round. Nothing cannot be restored, as a delete would take away what another
// process has written just now: a state that was never used, and soon expires, is the same.
func (c *cell) before() []byte {
	if c.raw != nil {
		return c.raw
	}
	unused := cell{}
	if c.log != nil {
		unused.log = &algo.Log{}
	}
	return unused.value()
}

// firstPause and longestPause bound how long a round waits before it tries again.
const (
	firstPause   = 100 * time.Microsecond
	longestPause = 10 * time.Millisecond
)

// pause waits before a try, twice as long as before the last, and at random, so that those who collided do not again. It ends
// early, and reports that, when the store is closed.
func (s *Store) pause(try int) bool {
	most := min(firstPause<<min(try, 16), longestPause)
	timer := time.NewTimer(rand.N(most))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.closing:
		return false
	}
}
