package testserver_test

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// abandon is the environment variable that makes this test binary start servers and wait
// to be killed.
const abandon = "HEADGATE_TEST_ABANDON"

// TestServersEndWithTestProcess kills a test process that has started servers, one of
// which is paused.
func TestServersEndWithTestProcess(t *testing.T) {
	if os.Getenv(abandon) != "" {
		stopped := testserver.Redis(t)
		stopped.Stop()
		os.Stdout.WriteString(strings.Join([]string{
			"folders", stopped.Dir(), testserver.Redis(t).Dir(), filepath.Dir(testserver.MemcachedUnix(t).Addr()),
		}, " ") + "\n")
		select {}
	}
	if runtime.GOOS != "linux" {
		t.Log("only Linux ends the children of a process with it")
		return
	}
	t.Parallel()
	tests := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	tests.Env = append(os.Environ(), abandon+"=1")
	out, err := tests.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tests.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	folders := strings.Fields(line)
	if err != nil || len(folders) != 4 {
		t.Fatalf("folders: got %q, error %v want three", line, err)
	}
	tests.Process.Kill()
	tests.Wait()
	for _, folder := range folders[1:] {
		for deadline := time.Now().Add(10 * time.Second); runsIn(t, folder); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the server in %s lives on", folder)
			}
		}
		os.RemoveAll(folder)
	}
}

// runsIn reports whether any process runs in a folder.
func runsIn(t *testing.T, folder string) bool {
	t.Helper()
	if _, err := os.Stat(folder); err != nil {
		t.Fatal(err)
	}
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && at == folder {
			return true
		}
	}
	return false
}

// TestServersRemoveTheirFiles checks that no process, even if paused, and no file
// remains.
func TestServersRemoveTheirFiles(t *testing.T) {
	t.Parallel()
	var folders []string
	var pids []int
	t.Run("servers", func(t *testing.T) {
		redis, cached := testserver.Redis(t, testserver.AppendFsyncAlways()), testserver.MemcachedUnix(t)
		folders = []string{redis.Dir(), filepath.Dir(cached.Addr())}
		pids = []int{redis.Pid(), cached.Pid()}
		redis.Stop()
		cached.Stop()
	})
	for _, folder := range folders {
		if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("folder %s: got %v want none", folder, err)
		}
	}
	for _, pid := range pids {
		if p, err := os.FindProcess(pid); err == nil && p.Signal(syscall.Signal(0)) == nil {
			t.Errorf("process %d is still there", pid)
		}
	}
}

// recorder is a testing.TB that records failures. It implements only the methods that
// this package calls.
type recorder struct {
	testing.TB
	said     []string
	cleanups []func()
}

func (r *recorder) Helper()                        {}
func (r *recorder) Cleanup(f func())               { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Failed() bool                   { return len(r.said) > 0 }
func (r *recorder) Logf(format string, a ...any)   { r.said = append(r.said, fmt.Sprintf(format, a...)) }
func (r *recorder) Errorf(format string, a ...any) { r.Logf(format, a...) }
func (r *recorder) Fatal(a ...any)                 { r.Fatalf("%s", fmt.Sprint(a...)) }
func (r *recorder) Fatalf(format string, a ...any) {
	r.Logf(format, a...)
	runtime.Goexit()
}

// record runs a test with its cleanups and returns its output.
func record(test func(t testing.TB)) string {
	r := new(recorder)
	var all sync.WaitGroup
	all.Go(func() { test(r) })
	all.Wait()
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
	return strings.Join(r.said, "\n")
}

func TestFailuresAreReported(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		test func(t testing.TB)
		want []string // parts of the failure's message; nil means no failure
	}{
		"nothing": {func(t testing.TB) { testserver.Redis(t).Do(t, "PING") }, nil},
		"a configuration that the server refuses": {
			func(t testing.TB) { testserver.Redis(t, testserver.WithConfig("nonsense", "1")) },
			[]string{"the process has ended", "Bad directive"},
		},
		"arguments that the server refuses": {
			func(t testing.TB) { testserver.Memcached(t, "-m", "nonsense", "-t", "0") },
			[]string{"the process has ended"},
		},
		"an error of Redis": {
			func(t testing.TB) { testserver.Redis(t).Do(t, "NONSENSE") },
			[]string{`redis ["NONSENSE"]: ERR unknown command`, "last output of redis-server:"},
		},
		"an error of memcached": {
			func(t testing.TB) { testserver.Memcached(t).Do(t, "nonsense") },
			[]string{`memcached "nonsense": ERROR`},
		},
		"a dead server stopped": {
			func(t testing.TB) {
				s := testserver.Redis(t)
				s.Kill()
				s.Stop()
				s.Continue()
			},
			[]string{"stop: the process does not run", "continue: the process does not run"},
		},
	} {
		begun := time.Now()
		got := record(c.test)
		if took := time.Since(begun); took > 20*time.Second {
			t.Errorf("%s: said after %v want at once", name, took)
		}
		if c.want == nil && got != "" {
			t.Errorf("%s: got %q want nothing", name, got)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: got %q want %q in it", name, got, want)
			}
		}
	}
}

// The test fails and is not skipped.
func TestMissingServersAreNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for debian, test := range map[string]func(t testing.TB){
		"redis-server":  func(t testing.TB) { testserver.Redis(t) },
		"valkey-server": func(t testing.TB) { testserver.Redis(t, testserver.Valkey()) },
		"memcached":     func(t testing.TB) { testserver.Memcached(t) },
	} {
		if got, want := record(test), "apt-get install "+debian; !strings.Contains(got, want) {
			t.Errorf("without %s: got %q want %q", debian, got, want)
		}
	}
	if testserver.ValkeyPresent() {
		t.Error("valkey is present on an empty path")
	}
}
