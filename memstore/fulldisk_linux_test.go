package memstore_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/memstore"
)

// folderVariable is the environment variable that passes a folder to a child process.
const folderVariable = "HEADGATE_TEST_FOLDER"

// inChild executes the test t again in a child process, for which change may change the
// attributes. In the child it returns the folder; in the parent it returns "".
func inChild(t *testing.T, change func(*exec.Cmd)) string {
	t.Helper()
	if folder, ok := os.LookupEnv(folderVariable); ok {
		return folder
	}
	folder, err := os.MkdirTemp("", "headgate") // a folder that all users can reach
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	if err := os.Chmod(folder, 0o711); err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+regexp.QuoteMeta(t.Name())+"$", "-test.count=1")
	child.Env = append(os.Environ(), folderVariable+"="+folder)
	child.SysProcAttr = &syscall.SysProcAttr{}
	change(child)
	if out, err := child.CombinedOutput(); err != nil {
		t.Fatalf("child process: %v\n%s", err, out)
	}
	return ""
}

// events is a list of events that a store has sent.
type events chan memstore.FolderEvent

func (e events) await(t *testing.T, kind memstore.FolderEventKind) memstore.FolderEvent {
	t.Helper()
	select {
	case got := <-e:
		if got.Kind != kind {
			t.Fatalf("got event %+v want kind %d", got, kind)
		}
		return got
	case <-time.After(time.Minute):
		t.Fatalf("no event of kind %d in a minute", kind)
		return memstore.FolderEvent{}
	}
}

// failAndRecover lets saving fail and then succeed, while decisions go on. The folder is
// that of the store.
func failAndRecover(t *testing.T, folder string, fail, repair func() error, cause error) {
	t.Helper()
	seen := make(events, 10)
	s, err := memstore.Open(folder, &memstore.FolderOptions{Sync: 10 * time.Millisecond, OnEvent: func(e memstore.FolderEvent) { seen <- e }})
	if err != nil {
		t.Fatal(err)
	}
	l := newLimiter(t, s, "p", "", "1000000/8000h")
	spend := func(from, to int) {
		for i := from; i < to; i++ {
			if d, err := l.Allow(t.Context(), fmt.Sprint(i)); err != nil || !d.Allowed {
				t.Fatalf("decision while saving fails: got %+v, %v want allowed", d, err)
			}
		}
	}
	spend(0, 1000)
	syncNow(t, s)
	if err := fail(); err != nil {
		t.Fatal(err)
	}
	spend(1000, 30_000)
	failed := seen.await(t, memstore.SaveFailed)
	if !errors.Is(failed.Err, cause) || !errors.Is(failed.Err, memstore.ErrFolderAccess) || !strings.Contains(failed.Err.Error(), folder) {
		t.Errorf("got error %v want %v with the path and the next step", failed.Err, cause)
	}
	spend(30_000, 40_000)
	if err := s.Sync(t.Context()); !errors.Is(err, cause) {
		t.Errorf("sync: got error %v want %v", err, cause)
	}
	if st := s.Folder(); st.Err == nil || st.Failures == 0 {
		t.Errorf("status: got %+v want the error and a failure", st)
	}
	if err := repair(); err != nil {
		t.Fatal(err)
	}
	if e := seen.await(t, memstore.SaveRecovered); e.Since <= 0 {
		t.Errorf("recovered: got %v since the last sync want more than 0", e.Since)
	}
	spend(40_000, 41_000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	stateFile(t, folder) // the file with the incomplete group was replaced
	s = openFolder(t, folder, nil)
	l = newLimiter(t, s, "p", "", "1000000/8000h")
	for _, i := range []int{0, 999, 1000, 29_999, 30_000, 40_999} {
		if d, err := l.PeekN(t.Context(), fmt.Sprint(i), 0); err != nil || d.Remaining != d.Limit-1 {
			t.Errorf("key %d after a restart: got %+v, %v want one unit spent", i, d, err)
		}
	}
}

// TestFolderFileTooLarge: the files of the process reach their maximum size.
func TestFolderFileTooLarge(t *testing.T) {
	folder := inChild(t, func(*exec.Cmd) {})
	if folder == "" {
		return
	}
	set := func(bytes uint64) func() error {
		return func() error {
			var limit syscall.Rlimit
			if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
				return err
			}
			limit.Cur = min(bytes, limit.Max)
			return syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
		}
	}
	failAndRecover(t, filepath.Join(folder, "state"), set(200<<10), set(1<<40), syscall.EFBIG)
}

// inMountedChild executes the test in a child process with a tmpfs of its own.
func inMountedChild(t *testing.T, options string) string {
	t.Helper()
	folder := inChild(t, func(c *exec.Cmd) {
		c.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
		if os.Geteuid() != 0 {
			c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
			c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
			c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
		}
	})
	if folder == "" {
		return ""
	}
	// In a chroot, no mount is at the root folder. The parent may then see the tmpfs too.
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil && !errors.Is(err, syscall.EINVAL) {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
	return folder
}

// TestFolderFullDisk fills a small file system.
func TestFolderFullDisk(t *testing.T) {
	folder := inMountedChild(t, "size=8m")
	if folder == "" {
		return
	}
	filler := filepath.Join(folder, "filler")
	fill := func() error {
		file, err := os.Create(filler)
		if err != nil {
			return err
		}
		for err == nil {
			_, err = file.Write(make([]byte, 4096))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			return err
		}
		return file.Close()
	}
	failAndRecover(t, filepath.Join(folder, "state"), fill, func() error { return os.Remove(filler) }, syscall.ENOSPC)
}

// TestFolderOnReadOnlyDisk opens a folder on a file system that is mounted read-only.
func TestFolderOnReadOnlyDisk(t *testing.T) {
	folder := inMountedChild(t, "size=1m")
	if folder == "" {
		return
	}
	s, err := memstore.Open(folder, smallFolder)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", folder, "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{folder, filepath.Join(folder, "new")} {
		_, err := memstore.Open(path, smallFolder)
		if !errors.Is(err, memstore.ErrFolderAccess) || !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "mount the file system for writing") {
			t.Errorf("%s: got error %v want a read-only file system and the next step", path, err)
		}
	}
	if check, err := memstore.CheckFolder(folder); err != nil || !check.Found || !check.Clean {
		t.Errorf("check: got %+v, error %v want a clean state", check, err)
	}
}

// TestFolderWithoutPermission opens the folder of another user.
func TestFolderWithoutPermission(t *testing.T) {
	folder := inChild(t, func(c *exec.Cmd) {
		if os.Geteuid() == 0 {
			c.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
		}
		denied := filepath.Join(strings.TrimPrefix(c.Env[len(c.Env)-1], folderVariable+"="), "state")
		if err := os.Mkdir(denied, 0o500); err != nil {
			t.Fatal(err)
		}
		c.Path = filepath.Join(filepath.Dir(denied), "test") // the other user can execute it
		if err := os.WriteFile(c.Path, readFile(t, os.Args[0]), 0o755); err != nil {
			t.Fatal(err)
		}
	})
	if folder == "" {
		return
	}
	_, err := memstore.Open(filepath.Join(folder, "state"), smallFolder)
	if !errors.Is(err, memstore.ErrFolderAccess) || !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "permission to read and write") {
		t.Errorf("got error %v want no permission and the next step", err)
	}
}
