package memstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/statefile"
	"github.com/headgate/headgate/memstore"
)

var smallFolder = &memstore.FolderOptions{Options: memstore.Options{MaxEntries: 100}, Sync: time.Minute}

// writtenFolder returns a state file with several groups, and what remained of the keys
// after each of them.
func writtenFolder(t *testing.T) (file string, states []string) {
	t.Helper()
	folder := t.TempDir()
	s := openFolder(t, folder, smallFolder)
	states = append(states, remaining(t, s))
	for i := range 5 {
		for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.SlidingLog} {
			allow(t, newLimiter(t, s, string(a), a, "1000/24h"), headgate.InstantOf(time.Now()), fmt.Sprint(i%2), int64(i+1))
		}
		hold(t, s, i)
		saveDocument(t, s, "note", fmt.Sprint("round ", i))
		syncNow(t, s)
		states = append(states, remaining(t, s))
	}
	return stateFile(t, copyFolder(t, folder)), states
}

func hold(t *testing.T, s *memstore.Store, i int) {
	t.Helper()
	h, err := newLimiter(t, s, "slots", headgate.Concurrency, "9 concurrent").Hold(t.Context(), fmt.Sprint(i%2), 1, time.Hour)
	if err != nil || !h.OK() {
		t.Fatalf("hold: %v, error %v", h, err)
	}
}

// remaining returns what remains of some keys. A bucket of 1000 units a day refills less
// than one unit during the test.
func remaining(t *testing.T, s *memstore.Store) string {
	t.Helper()
	var text []string
	for _, l := range []*headgate.Limiter{
		newLimiter(t, s, "token_bucket", headgate.TokenBucket, "1000/24h"), newLimiter(t, s, "sliding_log", headgate.SlidingLog, "1000/24h"),
		newLimiter(t, s, "slots", headgate.Concurrency, "9 concurrent"),
	} {
		for k := range 2 {
			d, err := l.PeekN(t.Context(), fmt.Sprint(k), 0)
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, fmt.Sprint(d.Remaining))
		}
	}
	d, err := s.LoadDocument(t.Context(), "note", 0)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(append(text, fmt.Sprintf("%d:%q", d.Version, d.Content)), " ")
}

// openDamaged opens a folder with the given content of its state file, and returns what
// remains of the keys. After an error the file must be unchanged.
func openDamaged(t *testing.T, content []byte) (state string, restored memstore.Restored, err error) {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "state-0000000001")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := memstore.Open(folder, smallFolder)
	if err != nil {
		if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, content) {
			t.Fatalf("the file was changed although it cannot be read: %v", err)
		}
		var typed *memstore.FolderError
		if !errors.As(err, &typed) || typed.Path != file || !strings.Contains(err.Error(), "rename") {
			t.Fatalf("got error %v want a FolderError with the path %s and the next step", err, file)
		}
		return "", restored, err
	}
	state, restored = remaining(t, s), s.Folder().Restored
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return state, restored, nil
}

// TestFolderCutAnywhere cuts the file off at every byte. The store has the state of the
// last complete group, and reports what it has cut off.
func TestFolderCutAnywhere(t *testing.T) {
	file, states := writtenFolder(t)
	whole := readFile(t, file)
	last := -1
	for cut := 0; cut <= len(whole); cut += step(cut, len(whole)) {
		state, restored, err := openDamaged(t, whole[:cut])
		if err != nil {
			if !errors.Is(err, memstore.ErrFolderCorrupt) || last >= 0 {
				t.Fatalf("cut at byte %d: got error %v after states were restored from fewer bytes: %v", cut, err, last >= 0)
			}
			continue
		}
		group := slices.Index(states, state)
		if group < last {
			t.Fatalf("cut at byte %d: got state %q, of group %d want group %d or later", cut, state, group, last)
		}
		if group > last && restored.CutBytes != 0 && step(cut, len(whole)) == 1 {
			t.Errorf("cut at byte %d, the end of group %d: %d bytes were cut off", cut, group, restored.CutBytes)
		}
		last = group
	}
	if last != len(states)-1 {
		t.Errorf("the whole file: got state %d want %d", last, len(states)-1)
	}
}

// step returns the distance to the next byte that is damaged: 1 in the long form, and
// near the end of the file.
func step(at, size int) int {
	if testing.Short() && at < size-150 {
		return 17
	}
	return 1
}

func readFile(t testing.TB, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestFolderFlippedBits flips a bit of every byte. The store either returns an error, or
// has the state of a group before the damage, and reports what it has cut off.
func TestFolderFlippedBits(t *testing.T) {
	file, states := writtenFolder(t)
	whole := readFile(t, file)
	for at := 0; at < len(whole); at += step(at, len(whole)) {
		broken := bytes.Clone(whole)
		broken[at] ^= 1 << (at % 8)
		state, restored, err := openDamaged(t, broken)
		switch {
		case errors.Is(err, memstore.ErrFolderCorrupt), errors.Is(err, memstore.ErrFolderVersion):
		case err != nil:
			t.Fatalf("byte %d: got error %v want a typed one", at, err)
		case state == states[len(states)-1]:
			t.Fatalf("byte %d: got the last state want an error or an earlier state", at)
		case restored.CutBytes == 0 || state != states[len(states)-2]:
			t.Fatalf("byte %d: got state %q, %d bytes cut off; want the state of the group before the last, and the number of bytes", at, state, restored.CutBytes)
		}
	}
}

// TestFolderOfAnotherVersion: a file of another version is not changed.
func TestFolderOfAnotherVersion(t *testing.T) {
	file, _ := writtenFolder(t)
	other := bytes.Replace(readFile(t, file), []byte("headgate state 1\n"), []byte("headgate state 2\n"), 1)
	if _, _, err := openDamaged(t, other); !errors.Is(err, memstore.ErrFolderVersion) || !strings.Contains(err.Error(), `"headgate state 2\n"`) {
		t.Errorf("got error %v want ErrFolderVersion with the version", err)
	}
	if _, _, err := openDamaged(t, []byte("a file of another program")); !errors.Is(err, memstore.ErrFolderCorrupt) {
		t.Errorf("another file: got error %v want ErrFolderCorrupt", err)
	}
}

// TestFolderOfTwoStores: a second store of a folder is an error with the process.
func TestFolderOfTwoStores(t *testing.T) {
	folder := t.TempDir()
	openFolder(t, folder, nil)
	_, err := memstore.Open(folder, nil)
	if want := fmt.Sprintf("in use by process %d", os.Getpid()); !errors.Is(err, memstore.ErrFolderInUse) || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v want ErrFolderInUse with %q", err, want)
	}
	check, err := memstore.CheckFolder(folder)
	if want := fmt.Sprintf("process %d", os.Getpid()); err != nil || check.User != want {
		t.Errorf("check: got %+v, error %v want the user %q", check, err, want)
	}
}

// TestFolderFilesArePrivate: only this user may read the files, which contain the secret.
func TestFolderFilesArePrivate(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "folder")
	openFolder(t, folder, smallFolder)
	for path, want := range map[string]os.FileMode{folder: 0o700, filepath.Join(folder, "lock"): 0o600, stateFile(t, folder): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: got mode %v, error %v want %v", path, info.Mode().Perm(), err, want)
		}
	}
}

// TestFolderWithOtherBounds opens the folder with more and with fewer keys.
func TestFolderWithOtherBounds(t *testing.T) {
	folder := t.TempDir()
	opts := func(entries int) *memstore.FolderOptions {
		return &memstore.FolderOptions{Options: memstore.Options{MaxEntries: entries}, Sync: time.Minute}
	}
	s, err := memstore.Open(folder, opts(5000))
	if err != nil {
		t.Fatal(err)
	}
	p := newPlayer(t, s, 9, headgate.InstantOf(time.Now()), 30)
	for range 3000 {
		p.step(t)
	}
	want := openFolder(t, copyAfterSync(t, s, folder), opts(5000))
	for _, entries := range []int{100_000, 2000} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = memstore.Open(folder, opts(entries)); err != nil {
			t.Fatal(err)
		}
		p.compare(t, s, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before := readFile(t, stateFile(t, folder))
	if _, err := memstore.Open(folder, opts(10)); !errors.Is(err, headgate.ErrStoreFull) {
		t.Errorf("with room for 10 keys: got error %v want ErrStoreFull", err)
	}
	if !bytes.Equal(before, readFile(t, stateFile(t, folder))) {
		t.Error("the file was changed although its state does not fit")
	}
}

// TestFolderClockGoesBack: a clock that is behind that of the last sync is reported.
func TestFolderClockGoesBack(t *testing.T) {
	folder := t.TempDir()
	for _, ahead := range []time.Duration{0, time.Hour} {
		s, err := memstore.Open(folder, smallFolder)
		if err != nil {
			t.Fatal(err)
		}
		if back := s.Folder().Restored.ClockBack; back != 0 {
			t.Errorf("the clock went back by %v want 0", back)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		addGroup(t, folder, time.Now().Add(ahead))
	}
	back := openFolder(t, folder, smallFolder).Folder().Restored.ClockBack
	if back < 59*time.Minute || back > time.Hour {
		t.Errorf("the last sync was an hour ahead: got %v want almost an hour", back)
	}
}

// addGroup adds an empty group to the state file, as if it had been synced at the time
// at.
func addGroup(t *testing.T, folder string, at time.Time) {
	t.Helper()
	locked, err := statefile.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer locked.Close()
	c, err := statefile.Check(stateFile(t, folder))
	if err != nil {
		t.Fatal(err)
	}
	w, err := locked.Continue(c, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.EndGroup(statefile.GroupEnd{At: at.UnixMicro()}), w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
}
