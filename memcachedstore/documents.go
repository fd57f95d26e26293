package memcachedstore

import (
	"context"
	"encoding/binary"
	"errors"
	"strconv"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate"
)

// A document is several items without an expiration: a head, and its content in chunks
// that fit into an item. The head has the format, the version and the number of chunks.
// The names of the chunks contain the version, so that a save writes new ones first, then
// replaces the head by cas, and then deletes the old ones. So a reader finds a whole
// content, or reads the head again.
const (
	formatDocument byte = 0xb6
	documentLength      = headLength + 2
	// chunkBytes is half of memcached's default item size.
	chunkBytes = 512 << 10
)

var _ headgate.DocumentStore = (*Store)(nil)

// documentHead is the head of a document. The zero value means that there is none.
type documentHead struct {
	version headgate.DocumentVersion
	chunks  int
	casID   uint64
}

func (h documentHead) encode() []byte {
	b := binary.BigEndian.AppendUint64([]byte{formatDocument}, uint64(h.version))
	return binary.BigEndian.AppendUint16(b, uint16(h.chunks))
}

// decodeDocument returns errForeign for a value that this package has not written.
func decodeDocument(b []byte) (documentHead, error) {
	if len(b) != documentLength || b[0] != formatDocument {
		return documentHead{}, errForeign
	}
	h := documentHead{
		version: headgate.DocumentVersion(binary.BigEndian.Uint64(b[1:])), chunks: int(binary.BigEndian.Uint16(b[headLength:])),
	}
	if h.version == 0 || h.chunks < 1 || h.chunks > headgate.MaxDocumentBytes/chunkBytes+1 {
		return documentHead{}, errForeign
	}
	return h, nil
}

// documentKey returns the key of the head of a document. It differs from the keys of all
// rules, because no algorithm has the name “document”.
func (s *Store) documentKey(name string) digest {
	scope := newScope(s.options.Namespace, "document", name)
	return scope.digest("")
}

// chunkKeys returns the keys of the chunks of a document.
func (s *Store) chunkKeys(name string, h documentHead) []digest {
	scope := newScope(s.options.Namespace, "document chunk", name)
	keys := make([]digest, h.chunks)
	for i := range keys {
		keys[i] = scope.digest(strconv.FormatUint(uint64(h.version), 10) + ":" + strconv.Itoa(i))
	}
	return keys
}

// LoadDocument returns a document, or only its version if it is known; see
// [headgate.DocumentStore]. memcached may have evicted a part of the document. It is then
// removed, and LoadDocument reports that there is none. A call with the known version
// also looks whether every part is there, which keeps them in memcached's list of recently
// used items.
func (s *Store) LoadDocument(ctx context.Context, name string, known headgate.DocumentVersion) (headgate.Document, error) {
	if err := headgate.ValidateDocument(name, nil); err != nil {
		return headgate.Document{}, err
	}
	return inWorker(ctx, s, func() (headgate.Document, error) { return s.loadDocument(name, known) })
}

// maxDocumentLoads is the maximum number of times that a document is read while other
// processes replace it.
const maxDocumentLoads = 50

func (s *Store) loadDocument(name string, known headgate.DocumentVersion) (headgate.Document, error) {
	for try := range maxDocumentLoads {
		if try > 0 && !s.waitBeforeRetry(try) {
			return headgate.Document{}, headgate.ErrClosed
		}
		head, err := s.loadHead(name)
		if err != nil || head.version == 0 {
			return headgate.Document{}, err
		}
		content, complete, err := s.loadChunks(name, head, head.version == known)
		if err != nil {
			return headgate.Document{}, err
		}
		if complete {
			return headgate.Document{Version: head.version, Content: content}, nil
		}
		again, err := s.loadHead(name)
		if err != nil {
			return headgate.Document{}, err
		}
		if again.version == head.version {
			return headgate.Document{}, s.removeHead(name, again)
		}
	}
	return headgate.Document{}, errContended(maxDocumentLoads)
}

func (s *Store) loadHead(name string) (documentHead, error) {
	item := s.documentKey(name).name()
	items, err := s.fetch([]string{item})
	if err != nil || items[item] == nil {
		return documentHead{}, err
	}
	h, err := decodeDocument(items[item].Value)
	if err != nil {
		return documentHead{}, errForeignValue()
	}
	if h.casID = items[item].CasID; h.casID == 0 {
		return documentHead{}, errWithoutCAS()
	}
	return h, nil
}

// loadChunks returns the content of a document, or only touches its chunks. complete is
// false if memcached does not have all of them.
func (s *Store) loadChunks(name string, h documentHead, touch bool) (content []byte, complete bool, err error) {
	for _, key := range s.chunkKeys(name, h) {
		if touch {
			err := s.client.Touch(key.name(), 0)
			if errors.Is(err, memcache.ErrCacheMiss) {
				return nil, false, nil
			}
			if err != nil {
				return nil, false, s.readError(err)
			}
			continue
		}
		items, err := s.fetch([]string{key.name()})
		if err != nil || items[key.name()] == nil {
			return nil, false, err
		}
		content = append(content, items[key.name()].Value...)
	}
	return content, true, nil
}

// readError converts the error of a command that changes no content to a store error.
func (s *Store) readError(err error) error {
	if isBroken(err) {
		s.closeIdle()
	}
	return classify(err, false)
}

// expired is the expiration of an item that memcached removes immediately.
const expired = -1

// removeHead removes the head of a document, unless another process has replaced it. A
// delete could remove a head that was written in the meantime.
func (s *Store) removeHead(name string, h documentHead) error {
	item := &memcache.Item{Key: s.documentKey(name).name(), Value: h.encode(), CasID: h.casID, Expiration: expired}
	if err := s.client.CompareAndSwap(item); err != nil && !isConflict(err) {
		return s.writeError(err)
	}
	return nil
}

// SaveDocument replaces a document if its version is expected; see
// [headgate.DocumentStore].
func (s *Store) SaveDocument(
	ctx context.Context, name string, expected headgate.DocumentVersion, content []byte,
) (headgate.DocumentVersion, error) {
	if err := headgate.ValidateDocument(name, content); err != nil {
		return 0, err
	}
	next := documentHead{chunks: (len(content) + chunkBytes - 1) / chunkBytes}
	if next.chunks > 0 {
		next.version = headgate.NewDocumentVersion()
	}
	_, err := inWorker(ctx, s, func() (struct{}, error) { return struct{}{}, s.saveDocument(name, expected, next, content) })
	if errors.Is(err, headgate.ErrDocumentConflict) {
		return 0, err
	}
	return next.version, err
}

func (s *Store) saveDocument(name string, expected headgate.DocumentVersion, next documentHead, content []byte) error {
	last, err := s.loadHead(name)
	if err != nil {
		return err
	}
	if last.version != expected {
		return headgate.ErrDocumentConflict
	}
	if err := s.writeChunks(name, next, content); err != nil {
		return err
	}
	if err := s.replaceHead(name, last, next); err != nil {
		s.deleteChunks(name, next)
		return err
	}
	s.deleteChunks(name, last)
	return nil
}

func (s *Store) writeChunks(name string, h documentHead, content []byte) error {
	for _, key := range s.chunkKeys(name, h) {
		n := min(len(content), chunkBytes)
		s.written.add(key)
		if err := s.client.Set(&memcache.Item{Key: key.name(), Value: content[:n]}); err != nil {
			return s.writeError(err)
		}
		content = content[n:]
	}
	return nil
}

// replaceHead writes the next head in place of the last one, unless another process has
// changed it.
func (s *Store) replaceHead(name string, last, next documentHead) error {
	key := s.documentKey(name)
	item := &memcache.Item{Key: key.name(), Value: next.encode(), CasID: last.casID}
	s.written.add(key)
	var err error
	switch {
	case last.version == 0 && next.version == 0:
		return nil
	case last.version == 0:
		err = s.client.Add(item)
	default:
		if next.version == 0 {
			item.Expiration = expired
		}
		err = s.client.CompareAndSwap(item)
	}
	if isConflict(err) {
		return headgate.ErrDocumentConflict
	}
	if err != nil {
		return s.writeError(err)
	}
	return nil
}

// deleteChunks deletes the chunks of a document. Chunks that cannot be deleted are
// evicted some day.
func (s *Store) deleteChunks(name string, h documentHead) {
	for _, key := range s.chunkKeys(name, h) {
		_ = s.client.Delete(key.name())
	}
}

// inWorker executes an operation that does not end with ctx in a goroutine of the store.
// It returns when ctx ends, at the latest.
func inWorker[T any](ctx context.Context, s *Store, operation func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, errNotSent(err)
	}
	done := make(chan result, 1)
	s.scheduler.mu.Lock()
	if s.scheduler.closed {
		s.scheduler.mu.Unlock()
		return none, headgate.ErrClosed
	}
	s.scheduler.workers.Go(func() {
		semaphore := len(s.semaphores) - 1
		if !s.acquire(semaphore) {
			done <- result{err: headgate.ErrClosed}
			return
		}
		defer s.release(semaphore)
		value, err := operation()
		done <- result{value, err}
	})
	s.scheduler.mu.Unlock()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, errTimedOut(ctx.Err())
	}
}
