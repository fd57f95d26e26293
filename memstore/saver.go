package memstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/statefile"
)

const (
	// An image is written again when the changes since the last one take imageFactor
	// times as much as the image, and minGrowth in addition.
	imageFactor = 3
	minGrowth   = 32 << 20
	// imageStep is how much of an image is written with each group of changes.
	imageStep = 4 << 20
	// A write that failed is tried again after firstRetry, and then after twice the time,
	// up to lastRetry.
	firstRetry = time.Second
	lastRetry  = 30 * time.Second
)

// saver saves the state of a store in a folder: in each sync, what has changed since the
// sync before. One goroutine does so. Decisions neither wait for it nor lock anything for
// it: they only mark what they write; see [pageFlags].
type saver struct {
	collector
	interval time.Duration
	onEvent  func(FolderEvent)
	folder   *statefile.Folder
	file     *statefile.Writer // nil while writing fails
	next     *statefile.Writer // file that will replace it, while its image is written; may be nil
	part     int               // next part of the image
	out      []*statefile.Writer
	outErr   map[*statefile.Writer]error
	written  bool          // whether the current group has a frame
	resized  bool          // whether the store that wrote the file had other bounds
	retry    time.Duration // after a failure
	retryAt  time.Time

	requests chan chan error
	stop     chan struct{}
	done     chan struct{}
	once     sync.Once
	closeErr error

	mu     sync.Mutex
	status FolderStatus
}

func (v *saver) header() []byte {
	s := v.store
	h := binary.LittleEndian.AppendUint64(nil, s.secret.k0)
	h = binary.LittleEndian.AppendUint64(h, s.secret.k1)
	return binary.LittleEndian.AppendUint64(h, uint64(s.size))
}

// parseHeader returns the secret and the number of keys in the header of a state file.
func parseHeader(h []byte) (secret hashKey, keys int, err error) {
	if len(h) != 24 {
		return secret, 0, fmt.Errorf("the header has %d bytes; must be 24", len(h))
	}
	n := binary.LittleEndian.Uint64(h[16:])
	if n < 1 || n > 1<<31 {
		return secret, 0, fmt.Errorf("the header is of a store for %d keys; must be 1 to %d", n, 1<<31)
	}
	return hashKey{binary.LittleEndian.Uint64(h), binary.LittleEndian.Uint64(h[8:])}, int(n), nil
}

// run saves the state until stop is closed, and then once more.
func (v *saver) run() {
	defer close(v.done)
	timer := time.NewTimer(v.interval / 2)
	defer timer.Stop()
	for {
		var reply chan error
		select {
		case <-v.stop:
			v.closeErr = v.finish()
			return
		case reply = <-v.requests:
		case <-timer.C:
		}
		begin := time.Now()
		err := v.sync(false)
		if reply != nil {
			reply <- err
		}
		timer.Reset(v.pause(time.Since(begin)))
	}
}

// pause returns the time until the next sync begins, after one that took the given
// time. If a sync takes at most half of the interval, a change is on the disk an
// interval after it was made.
func (v *saver) pause(took time.Duration) time.Duration {
	return max(0, max(v.interval/2, v.interval-2*took)-took)
}

// sync saves all changes that were made before the call. If closing is true, it is the
// last sync.
func (v *saver) sync(closing bool) error {
	now := time.Now()
	if v.file == nil {
		if now.Before(v.retryAt) && !closing {
			return v.Status().Err
		}
		return v.rewrite(now, closing)
	}
	if closing && v.next != nil {
		_ = v.next.Discard()
		v.next = nil
	}
	at := v.store.clock.micros()
	v.setOut(v.file, v.next)
	v.changes()
	v.flush()
	written := v.written || closing
	if v.next != nil {
		v.setOut(v.next)
		v.writeImage(at)
		written = true
	}
	if written {
		v.endGroup(statefile.GroupEnd{At: at, Closed: closing})
	}
	if err := v.outErr[v.file]; err != nil {
		v.fail(err, now)
		return err
	}
	v.saved(now)
	v.replaceFile()
	v.beginImage(now)
	return nil
}

// setOut selects the files to which flush writes.
func (v *saver) setOut(files ...*statefile.Writer) {
	v.out = v.out[:0]
	for _, f := range files {
		if f != nil {
			v.out = append(v.out, f)
		}
	}
}

// write is the flush of the collector: it writes the frame to all files that have not
// failed.
func (v *saver) write() {
	if len(v.frame) > statefile.FrameHeader {
		v.written = true
		for _, f := range v.out {
			if v.outErr[f] == nil {
				v.setErr(f, f.Append(v.frame))
			}
		}
	}
	v.frame = statefile.NewFrame(v.frame)
}

func (v *saver) setErr(f *statefile.Writer, err error) {
	if err != nil {
		v.outErr[f] = err
	}
}

// writeImage adds parts of the image to the next file.
func (v *saver) writeImage(now int64) {
	for begin := v.next.Size(); v.part < v.parts() && v.next.Size()-begin < imageStep && v.outErr[v.next] == nil; v.part++ {
		v.imagePart(v.part, now)
		v.flush()
	}
}

// endGroup ends the group in all files and syncs them.
func (v *saver) endGroup(e statefile.GroupEnd) {
	v.written = false
	if v.outErr[v.file] == nil {
		v.setErr(v.file, v.file.EndGroup(e))
	}
	if v.outErr[v.file] == nil {
		v.setErr(v.file, v.file.Sync())
	}
	if v.next == nil {
		return
	}
	e.Complete = v.part == v.parts()
	if v.outErr[v.next] == nil {
		v.setErr(v.next, v.next.EndGroup(e))
	}
}

// replaceFile makes the next file the current one if its image is complete. If writing it
// has failed, it is removed, and another one is written later.
func (v *saver) replaceFile() {
	if v.next == nil {
		return
	}
	err := v.outErr[v.next]
	if err == nil && v.part < v.parts() {
		return
	}
	if err == nil {
		err = v.next.Commit()
	}
	if err != nil {
		v.giveUpImage(err)
		return
	}
	old := v.file
	v.file, v.next = v.next, nil
	delete(v.outErr, old)
	if err := errors.Join(old.Close(), v.folder.RemoveOld()); err != nil {
		v.count(func(s *FolderStatus) { s.Failures++ })
	}
}

// giveUpImage removes the next file after an error.
func (v *saver) giveUpImage(err error) {
	delete(v.outErr, v.next)
	_ = v.next.Discard()
	v.next, v.retryAt = nil, time.Now().Add(lastRetry)
	v.count(func(s *FolderStatus) { s.Failures++ })
	v.notify(FolderEvent{Kind: ImageFailed, Err: err})
}

// beginImage begins another file if the current one has grown.
func (v *saver) beginImage(now time.Time) {
	if v.next != nil || v.file.Grown() < minGrowth+imageFactor*v.file.Image() || now.Before(v.retryAt) {
		return
	}
	next, err := v.folder.Create(v.header(), v.file.Group())
	if err != nil {
		v.retryAt = now.Add(lastRetry)
		v.count(func(s *FolderStatus) { s.Failures++ })
		v.notify(FolderEvent{Kind: ImageFailed, Err: err})
		return
	}
	v.next, v.part = next, 0
}

// rewrite writes a new file with the whole state: when the store is new, after a failure,
// or if the bounds have changed. Changes stay marked.
func (v *saver) rewrite(now time.Time, closing bool) error {
	at := v.store.clock.micros()
	file, err := v.folder.Create(v.header(), 1)
	if err != nil {
		v.fail(err, now)
		return err
	}
	v.setOut(file)
	v.frame = statefile.NewFrame(v.frame)
	for v.part = 0; v.part < v.parts() && v.outErr[file] == nil; v.part++ {
		v.imagePart(v.part, at)
	}
	v.flush()
	v.written = false
	err = v.outErr[file]
	delete(v.outErr, file)
	if err == nil {
		err = file.EndGroup(statefile.GroupEnd{At: at, Complete: true, Closed: closing})
	}
	if err == nil {
		err = file.Commit()
	}
	if err != nil {
		v.fail(errors.Join(err, file.Discard()), now)
		return err
	}
	v.file = file
	v.saved(now)
	if err := v.folder.RemoveOld(); err != nil {
		v.count(func(s *FolderStatus) { s.Failures++ })
	}
	return nil
}

// fail records that the state could not be saved. The file keeps all groups that were
// synced before.
func (v *saver) fail(err error, now time.Time) {
	first := v.retry == 0
	v.retry = min(max(firstRetry, 2*v.retry), lastRetry)
	v.retryAt = now.Add(v.retry)
	if v.next != nil {
		_ = v.next.Discard()
		v.next = nil
	}
	if v.file != nil {
		_ = v.file.Close()
		v.file = nil
	}
	clear(v.outErr)
	v.count(func(s *FolderStatus) { s.Failures++; s.Err = err })
	if first {
		v.notify(FolderEvent{Kind: SaveFailed, Err: err})
	}
}

// saved records that all changes before the given time are saved.
func (v *saver) saved(at time.Time) {
	failed := v.retry > 0
	v.retry, v.retryAt = 0, time.Time{}
	before := v.Status().LastSync
	v.count(func(s *FolderStatus) {
		s.LastSync, s.Err = at, nil
		s.Syncs++
		s.Bytes = v.file.Size()
		if v.next != nil {
			s.Bytes += v.next.Size()
		}
	})
	if failed {
		v.notify(FolderEvent{Kind: SaveRecovered, Since: at.Sub(before)})
	}
}

func (v *saver) count(change func(*FolderStatus)) {
	v.mu.Lock()
	defer v.mu.Unlock()
	change(&v.status)
}

func (v *saver) notify(e FolderEvent) {
	if v.onEvent != nil {
		v.onEvent(e)
	}
}

// Status returns the current numbers.
func (v *saver) Status() FolderStatus {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.status
}

// finish saves the state for the last time, and unlocks the folder.
func (v *saver) finish() error {
	err := v.sync(true)
	if v.file != nil {
		err = errors.Join(err, v.file.Close())
	}
	return errors.Join(err, v.folder.Close())
}

// close stops the goroutine after the last sync.
func (v *saver) close() error {
	v.once.Do(func() { close(v.stop) })
	<-v.done
	return v.closeErr
}

// request makes the goroutine save the state, and waits until it has.
func (v *saver) request(ctx context.Context) error {
	reply := make(chan error, 1)
	select {
	case v.requests <- reply:
		return <-reply
	case <-v.done:
		return headgate.ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}
