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

// round is one operation on the keys of a group. It reads all keys, applies the jobs in
// order, and writes the changed values by add or cas. If another process has written a
// key in the meantime, the round applies the jobs again to the new values.
//
// Several keys are written one after another. After the first write, the round keeps
// the instants of its jobs and must complete: it writes the remaining keys, or refunds
// what it has written.
type round struct {
	store *Store
	group *group
	jobs  []*job

	cells         []*cell
	claimed       []*job // jobs whose callers were still waiting at claimJobs
	clock         int64
	earliest      int64 // earliest instant of the claimed jobs
	latest        int64
	callerInstant bool // whether a caller passed the instant of a job
}

func (r *round) run() error {
	r.cells = make([]*cell, len(r.group.keys))
	for i, key := range r.group.keys {
		r.cells[i] = &cell{key: key, name: r.group.names[i]}
	}
	err := r.runWithRetries()
	partlyWritten := false
	for _, c := range r.cells {
		if err != nil {
			c.pendingDebit = debit{}
			r.replaceWritten(c, nil)
			partlyWritten = partlyWritten || c.written && (c.writtenValue == nil || c.changed)
		}
		r.undoUnspent(c)
		r.cancelUnopened(c)
	}
	if partlyWritten {
		return errPartlyWritten(err)
	}
	return err
}

func (r *round) runWithRetries() error {
	for try := range r.store.options.MaxTries {
		if try > 0 && !r.store.waitBeforeRetry(try) || !r.store.acquire(r.group.semaphore) {
			return headgate.ErrClosed
		}
		done, err := r.attempt()
		r.store.release(r.group.semaphore)
		if done || err != nil {
			return err
		}
	}
	return errContended(r.store.options.MaxTries)
}

// hasWritten reports whether the round has written any key.
func (r *round) hasWritten() bool {
	for _, c := range r.cells {
		if c.written {
			return true
		}
	}
	return false
}

// attempt tries the operation once. done is false if another process has written a key
// in the meantime, so that a further attempt is necessary.
func (r *round) attempt() (done bool, err error) {
	if !r.hasCallers() {
		return true, nil
	}
	if err := r.read(); err != nil {
		return false, err
	}
	if r.hasWritten() {
		r.claimed = slices.DeleteFunc(r.claimed, (*job).denied)
	} else {
		r.claimJobs()
	}
	if err := r.readRecords(); err != nil {
		return false, err
	}
	for _, j := range r.claimed {
		j.apply(r.cells, r.clock)
	}
	done, err = r.write()
	if !done && err == nil && !r.hasWritten() {
		for _, j := range r.claimed {
			j.unclaim()
		}
	}
	return done, err
}

// hasCallers reports whether any job of the round has not been abandoned.
func (r *round) hasCallers() bool {
	for _, j := range r.jobs {
		if j.stage.Load() != jobAbandoned {
			return true
		}
	}
	return false
}

// claimJobs claims the jobs that their callers have not abandoned. From then on, units
// may be spent for these jobs.
func (r *round) claimJobs() {
	r.clock = time.Now().UnixMicro()
	r.claimed, r.earliest, r.latest, r.callerInstant = r.claimed[:0], math.MaxInt64, 0, false
	for _, j := range r.jobs {
		if !j.claim() {
			continue
		}
		r.claimed = append(r.claimed, j)
		r.earliest, r.latest = min(r.earliest, j.instant(r.clock)), max(r.latest, j.instant(r.clock))
		r.callerInstant = r.callerInstant || j.now != headgate.StoreClock
	}
}

// read reads the values of the keys. A key that this round has written is not read
// again: the jobs are applied again to the value that it had before.
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
			if err := c.load(items[c.name]); err != nil {
				return err
			}
		}
		if c.decode(r.group.logs[i]) != nil {
			return errForeignValue()
		}
	}
	return nil
}

// fetch reads keys. If the round has only one key, fetch reads it in a batch with keys of
// other rounds on the same server. A log is not read in a batch, because it may be long.
func (r *round) fetch(names []string) (map[string]*memcache.Item, error) {
	if len(r.group.names) != 1 || r.group.logs[0] || r.store.servers == nil {
		return r.store.fetch(names)
	}
	item, err := r.store.readOne(r.group.semaphore, names[0])
	return map[string]*memcache.Item{names[0]: item}, err
}

// load stores in the cell the item that was read from the server. A nil item means that
// the key does not exist.
func (c *cell) load(item *memcache.Item) error {
	c.raw, c.casID = nil, 0
	if item == nil {
		return nil
	}
	if c.raw, c.casID = item.Value, item.CasID; c.casID == 0 {
		return errWithoutCAS()
	}
	return nil
}

// write writes the cells that the jobs have changed. done is false if one of the keys
// has changed on the server since it was read.
func (r *round) write() (done bool, err error) {
	for _, c := range r.cells {
		value := r.valueToWrite(c)
		if c.written {
			r.replaceWritten(c, value)
			continue
		}
		if value == nil {
			continue
		}
		if err := r.writeRecords(c); err != nil {
			return false, err
		}
		err := r.put(c, value)
		if isConflict(err) {
			return false, nil
		}
		if err != nil {
			return false, r.store.writeError(err)
		}
		c.written, c.writtenValue, c.debited = true, value, c.pendingDebit
	}
	return true, nil
}

// valueToWrite returns the value to write for a cell, or nil if nothing must be
// written: the value equals the value that was read, or the state is unused and the key
// does not exist.
func (r *round) valueToWrite(c *cell) []byte {
	if !c.dirty || c.raw == nil && c.unusedAt <= r.earliest {
		return nil
	}
	value := c.value()
	if bytes.Equal(value, c.raw) {
		return nil
	}
	return value
}

// put writes the parameter value in place of the value that was read. The write is sent
// only once, whatever its result is. States are written in batches. A log, or a state
// with open holds, may be long and is written separately.
func (r *round) put(c *cell, value []byte) error {
	unusedAt := int64(binary.BigEndian.Uint64(value[1:]))
	item := &memcache.Item{
		Key: c.name, Value: value, CasID: c.casID,
		Expiration: expiration(requiredTTL(unusedAt, r.earliest, r.callerInstant), time.Now().Unix()),
	}
	r.store.written.add(c.key)
	client := r.store.writer
	if value[0] != formatState {
		client = r.store.client
	}
	if c.raw == nil {
		return client.Add(item)
	}
	return client.CompareAndSwap(item)
}

// isConflict reports whether err means that another process has written the key since
// it was read, or that the server has dropped the key.
func isConflict(err error) bool {
	return errors.Is(err, memcache.ErrCASConflict) || errors.Is(err, memcache.ErrNotStored) || errors.Is(err, memcache.ErrCacheMiss)
}

// replaceWritten writes the parameter value in place of the value that this round has
// written. If the parameter is nil, it restores the value from before the round. It does
// so only if the key still has exactly the value that the round has written. If another
// process has changed the key since, undoUnspent makes the correction at the end of the
// round. If the server does not answer, the written value stays.
func (r *round) replaceWritten(c *cell, value []byte) {
	if !c.written || c.writtenValue == nil || c.changed {
		return
	}
	if value == nil {
		value = c.previousValue()
	}
	if bytes.Equal(value, c.writtenValue) {
		return
	}
	now, err := r.current(c)
	if err == nil && bytes.Equal(now.raw, c.writtenValue) {
		err = r.put(now, value)
	} else if err == nil {
		err = memcache.ErrCASConflict
	}
	switch {
	case err == nil:
		c.writtenValue, c.debited = value, c.pendingDebit
	case isConflict(err):
		c.changed = true
	default:
		c.writtenValue = nil
	}
}

// current reads the current value of a cell's key into a new cell.
func (r *round) current(c *cell) (*cell, error) {
	now := &cell{key: c.key, name: c.name}
	items, err := r.store.fetch([]string{c.name})
	if err != nil {
		return nil, err
	}
	return now, now.load(items[c.name])
}

// previousValue returns the value of the key before this round. If the key did not
// exist, this is an unused state that expires soon, which is equivalent. The key is not
// deleted instead, because a delete would also remove a concurrent write.
func (c *cell) previousValue() []byte {
	if c.raw != nil {
		return c.raw
	}
	unused := cell{}
	if c.log != nil {
		unused.log = &algo.Log{}
	}
	return unused.value()
}

// The maximum delay before a retry starts at twice minRetryDelay and grows up to
// maxRetryDelay.
const (
	minRetryDelay = 100 * time.Microsecond
	maxRetryDelay = 10 * time.Millisecond
)

// waitBeforeRetry waits for a random delay before attempt number try, so that processes
// that collided do not collide again. The maximum delay doubles with each attempt.
// waitBeforeRetry returns false, without further delay, if the store is closed.
func (s *Store) waitBeforeRetry(try int) bool {
	maxDelay := min(minRetryDelay<<min(try, 16), maxRetryDelay)
	timer := time.NewTimer(rand.N(maxDelay))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.closing:
		return false
	}
}
