package memstore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/statefile"
)

// The errors of a folder. Each matches the errors of type [*FolderError] of that kind.
var (
	// ErrFolderInUse is the kind of the error if another process uses the folder.
	ErrFolderInUse = statefile.ErrInUse
	// ErrFolderCorrupt is the kind of the error for a file that is damaged in a part that
	// had been synced to the disk.
	ErrFolderCorrupt = statefile.ErrCorrupt
	// ErrFolderVersion is the kind of the error for a file in the format of another
	// version.
	ErrFolderVersion = statefile.ErrVersion
	// ErrFolderAccess is the kind of the error if the folder or a file cannot be read or
	// written: because of permissions, a read-only file system or a full disk.
	ErrFolderAccess = statefile.ErrAccess
)

// FolderError is an error of a folder or of one of its files. It names the path, what is
// wrong and the next step. Nothing was overwritten or removed.
type FolderError = statefile.Error

// DefaultSync is the default of [FolderOptions.Sync].
const DefaultSync = 100 * time.Millisecond

// The bounds of [FolderOptions.Sync].
const (
	minSync = 10 * time.Millisecond
	maxSync = time.Minute
)

// FolderOptions are the options of a store whose state is saved in a folder.
type FolderOptions struct {
	// Options are the bounds of the memory. If they differ from those at the last start,
	// the state is written again. If it does not fit, Open returns
	// [headgate.ErrStoreFull].
	Options
	// Sync is the time after which a change is on the disk, at the latest: a crash
	// forgets at most what was admitted in this time. It is 10 ms to 1 min; 0 means
	// [DefaultSync]. If the disk takes more than half of it for a sync, the time is
	// longer: see [FolderStatus.LastSync].
	Sync time.Duration
	// OnEvent receives events of the folder, one after another. It must not call methods
	// of the store that wait for a sync: Sync and Close. nil means no call.
	OnEvent func(FolderEvent)
}

// Validate returns an error if an option is outside its range.
func (o FolderOptions) Validate() error {
	if o.Sync != 0 && (o.Sync < minSync || o.Sync > maxSync) {
		return fmt.Errorf("memstore: Sync is %v; must be %v to %v (0 selects %v)", o.Sync, minSync, maxSync, DefaultSync)
	}
	return o.Options.Validate()
}

// FolderEventKind is the kind of a [FolderEvent].
type FolderEventKind uint8

// The kinds of events.
const (
	// SaveFailed: the state could not be saved. Decisions go on in memory. Saving is
	// tried again, at first after a second, and later every 30 seconds.
	SaveFailed FolderEventKind = iota + 1
	// SaveRecovered: the whole state was saved again after a failure.
	SaveRecovered
	// ImageFailed: a new file that replaces the current one could not be written. Changes
	// are still saved in the current file, which grows. It is tried again later.
	ImageFailed
)

// FolderEvent is an event of the folder of a store.
type FolderEvent struct {
	Kind  FolderEventKind
	Err   error         // cause of a failure
	Since time.Duration // time since the last sync before the failure, for SaveRecovered
}

// FolderStatus is the state of the folder of a store at one moment.
type FolderStatus struct {
	Path string // the folder; empty if the store has none
	// Bytes is the size of the files.
	Bytes int64
	// LastSync is the start of the last sync: all decisions that were returned before are
	// saved.
	LastSync time.Time
	Syncs    uint64 // number of syncs
	Failures uint64 // number of syncs and other writes that failed
	Err      error  // error of the last sync; nil if it succeeded
	Restored Restored
}

// Restored is the result of reading the state at the start.
type Restored struct {
	Found    bool          // whether there was a state
	Keys     int           // number of keys that were restored, including overflow buckets
	Duration time.Duration // time that reading took
	// Clean reports whether the store was closed regularly. Otherwise what was admitted
	// after the last sync is forgotten.
	Clean bool
	// CutBytes is the size of an incomplete group at the end of the file, which was cut
	// off.
	CutBytes int64
	// ClockBack is how far the clock is behind that of the last sync; 0 if it is not,
	// or by less than a second. Keys in use are denied for longer by this time.
	ClockBack time.Duration
}

// Open returns a store whose state is saved in a folder and survives a restart: units
// spent, sliding logs, open holds, leases and documents. The folder is created if it does
// not exist, with access for this user only. opts may be nil. The caller must call Close
// after the last decision: then nothing is forgotten.
//
// Decisions are made in memory, as by a store of [New]. A goroutine saves what has
// changed, in intervals of [FolderOptions.Sync]. A crash of the program or the machine
// forgets at most what was admitted in this time. While saving fails, for example because
// the disk is full, decisions go on, and a restart forgets what was admitted since; see
// [FolderEvent]. When saving is possible again, the whole state is written.
//
// Only one process can use a folder. Errors of the folder are of type [*FolderError]. A
// file that cannot be read is neither changed nor removed. The files contain the secret
// of the hash: see [Store.Snapshot].
func Open(folder string, opts *FolderOptions) (*Store, error) {
	var o FolderOptions
	if opts != nil {
		o = *opts
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	locked, err := statefile.Open(folder)
	if err != nil {
		return nil, fmt.Errorf("memstore: %w", err)
	}
	s, err := openLocked(locked, &o)
	if err != nil {
		_ = locked.Close()
		return nil, fmt.Errorf("memstore: %w", err)
	}
	go s.saver.run()
	return s, nil
}

func openLocked(folder *statefile.Folder, o *FolderOptions) (*Store, error) {
	path, err := statefile.Newest(folder.Path)
	if err != nil {
		return nil, err
	}
	v := newSaver(folder, o)
	if path == "" {
		return v.begin(newStore(&o.Options, newSecret()))
	}
	contents, err := statefile.Check(path)
	if err != nil {
		return nil, err
	}
	keys, logBytes := o.Options.sizes()
	s, err := v.restore(contents, keys, logBytes)
	if err != nil {
		return nil, err
	}
	if v.resized {
		return v.begin(s)
	}
	return v.resume(s, contents)
}

func newSaver(folder *statefile.Folder, o *FolderOptions) *saver {
	v := &saver{
		folder: folder, interval: o.Sync, onEvent: o.OnEvent, outErr: make(map[*statefile.Writer]error),
		requests: make(chan chan error), stop: make(chan struct{}), done: make(chan struct{}),
	}
	if v.interval == 0 {
		v.interval = DefaultSync
	}
	v.status.Path = folder.Path
	v.held, v.maxHeld = make(map[digest]struct{}), minHeld
	v.flush = v.write
	v.frame = statefile.NewFrame(nil)
	return v
}

// attach connects the saver and the store.
func (v *saver) attach(s *Store) {
	v.store, s.saver = s, v
	s.track()
}

// begin writes the whole state of a store into a new file.
func (v *saver) begin(s *Store) (*Store, error) {
	v.attach(s)
	onEvent := v.onEvent
	v.onEvent = nil // an error is returned
	err := v.rewrite(time.Now(), false)
	v.onEvent = onEvent
	return s, err
}

// resume continues the file from which the state was restored.
func (v *saver) resume(s *Store, c *statefile.Contents) (*Store, error) {
	v.attach(s)
	var err error
	if v.file, err = v.folder.Continue(c, s.imageBytes()); err != nil {
		return nil, err
	}
	// From now on, the file is not that of a store that was closed.
	if err := v.file.EndGroup(statefile.GroupEnd{At: s.clock.micros()}); err != nil {
		return nil, errors.Join(err, v.file.Close())
	}
	if err := v.file.Sync(); err != nil {
		return nil, errors.Join(err, v.file.Close())
	}
	v.count(func(st *FolderStatus) { st.LastSync, st.Bytes = time.Now(), v.file.Size() })
	return s, v.folder.RemoveOld()
}

// restore reads the state of a file.
func (v *saver) restore(c *statefile.Contents, keys int, logBytes int64) (*Store, error) {
	begin := time.Now()
	s, held, resized, err := restoreFile(c, keys, logBytes, begin.UnixMicro())
	if err != nil {
		return nil, err
	}
	v.resized = resized
	for d := range held {
		v.held[d] = struct{}{}
	}
	r := Restored{Found: true, Keys: s.Stats().Keys, Clean: c.Last.Closed && c.Cut() == 0, CutBytes: c.Cut()}
	if back := time.Duration(c.Last.At-begin.UnixMicro()) * time.Microsecond; back >= time.Second {
		r.ClockBack = back
	}
	r.Duration = time.Since(begin)
	v.status.Restored = r
	return s, nil
}

// restoreFile reads the state of a file into a store for the given number of keys. It
// also returns the holds, and whether the store that wrote the file had other bounds.
func restoreFile(c *statefile.Contents, keys int, logBytes, now int64) (*Store, map[digest]*restoredHolds, bool, error) {
	secret, wrote, err := parseHeader(c.Header)
	if err != nil {
		return nil, nil, false, c.Corrupt(err)
	}
	p := newReplayer(wrote, secret)
	if err := c.Replay(p.apply); err != nil {
		return nil, nil, false, err
	}
	// If the clock went back, nothing expires later than it would have.
	s, err := p.finish(keys, logBytes, max(now, c.Last.At))
	if errors.Is(err, headgate.ErrStoreFull) {
		return nil, nil, false, fmt.Errorf("the state in %s does not fit: %w", c.Path, err)
	}
	if err != nil {
		return nil, nil, false, c.Corrupt(err)
	}
	return s, p.held, wrote != keys, nil
}

// imageBytes estimates the size of an image of the state.
func (s *Store) imageBytes() (n int64) {
	for _, r := range [...]*region{&s.keys, &s.overflow} {
		for i := range r.shards {
			n += int64(r.shards[i].used) * savedSlotBytes
		}
	}
	for name, d := range s.documents.byName {
		n += int64(len(name) + len(d.Content))
	}
	logs := s.logs.stats()
	return n + int64(logs.singles+logs.keys)*savedLogBytes + int64(logs.entries)*logEntryBytes
}

// Sync saves all decisions that were returned before the call, and waits until they are
// on the disk. It returns nil immediately if the store has no folder.
func (s *Store) Sync(ctx context.Context) error {
	if s.saver == nil {
		return nil
	}
	if s.closed.Load() {
		return headgate.ErrClosed
	}
	if err := s.saver.request(ctx); err != nil {
		return fmt.Errorf("memstore: sync: %w", err)
	}
	return nil
}

// Folder returns the state of the store's folder. Its Path is empty if the store has
// none.
func (s *Store) Folder() FolderStatus {
	if s.saver == nil {
		return FolderStatus{}
	}
	return s.saver.Status()
}

// FolderCheck is the result of [CheckFolder].
type FolderCheck struct {
	User     string // text with the process that uses the folder; empty if none does
	File     string // path of the state file; empty if there is no state
	Bytes    int64  // size of the file
	Groups   int    // number of groups, one for each sync with changes
	LastSync time.Time
	Restored
}

// CheckFolder reads the state in a folder and checks it completely. It changes nothing,
// and may be called while another process uses the folder: then the end of the file may
// be a group that is being written.
func CheckFolder(folder string) (FolderCheck, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return FolderCheck{}, fmt.Errorf("memstore: %w", err)
	}
	check := FolderCheck{User: statefile.User(folder)}
	if check.File, err = statefile.Newest(folder); err != nil || check.File == "" {
		return check, wrapFolder(err)
	}
	contents, err := statefile.Check(check.File)
	if err != nil {
		return check, wrapFolder(err)
	}
	check.Bytes, check.Groups, check.LastSync = contents.Size, contents.Groups, time.UnixMicro(contents.Last.At)
	_, keys, err := parseHeader(contents.Header)
	if err != nil {
		return check, wrapFolder(contents.Corrupt(err))
	}
	v := &saver{collector: collector{held: make(map[digest]struct{})}}
	_, err = v.restore(contents, keys, 1<<62)
	check.Restored = v.status.Restored
	return check, wrapFolder(err)
}

func wrapFolder(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("memstore: %w", err)
}
