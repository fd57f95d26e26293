package testserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// maxWait is how long a server may take to start, or to show the effect of an action,
// on a busy machine.
const maxWait = 30 * time.Second

// process is a server's process. It can be killed and started again with the same
// command line.
type process struct {
	binary string
	args   []string
	dir    string   // folder of its files, and its working directory
	env    []string // its environment; nil means that of this process

	mu   sync.Mutex
	cmd  *exec.Cmd     // nil before the first start
	done chan struct{} // closed when cmd has ended
}

// newProcess prepares a process that runs in a new folder. At the end of the test it is
// killed and the folder is removed. If the test failed, the end of its output is
// logged.
func newProcess(t testing.TB, name, debian string) *process {
	t.Helper()
	binary, err := exec.LookPath(name)
	if err != nil {
		binary, err = exec.LookPath("/usr/sbin/" + name) // only in the PATH of root
	}
	if err != nil {
		t.Fatalf("%s is not installed; run scripts/setup or apt-get install %s", name, debian)
	}
	// Not t.TempDir: the path of a socket has at most 107 bytes, and test names are long.
	dir, err := os.MkdirTemp("", "headgate-")
	if err != nil {
		t.Fatal(err)
	}
	p := &process{binary: binary, dir: dir}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("last output of %s:\n%s", name, p.output())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the folder of %s: %v", name, err)
		}
	})
	return p
}

func (p *process) path(name string) string { return filepath.Join(p.dir, name) }

// output returns the end of the process's output.
func (p *process) output() []byte {
	text, _ := os.ReadFile(p.path("output"))
	const most = 2000
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return text
}

// start starts the process unless it runs. A separate locked thread waits for it,
// because Linux kills such a child together with the thread that started it, not with
// the process.
func (p *process) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		return nil
	}
	output, err := os.OpenFile(p.path("output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(p.binary, p.args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = p.dir, p.env, output, output, killWithParent()
	started, done := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		output.Close() //nolint:errcheck // the child has a copy; this one wrote nothing
		started <- err
		if err == nil {
			_ = cmd.Wait() // usually killed, so the error is expected
			close(done)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	p.cmd, p.done = cmd, done
	return nil
}

// running reports whether the process exists, paused or not. The caller must hold p.mu.
func (p *process) running() bool {
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// ended returns a channel that is closed when the last started process has ended.
func (p *process) ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// kill kills the process, which may be paused, and waits until it has ended.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		_ = p.cmd.Process.Kill() // it fails only if the process has just ended
		<-p.done
	}
}

// signal sends sig to a running process.
func (p *process) signal(sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return errors.New("the process does not run")
	}
	return p.cmd.Process.Signal(sig)
}

// pid returns the ID of the last started process, or 0.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// stop pauses the process and waits until it is paused.
func (p *process) stop() error {
	if err := p.signal(sigStop); err != nil {
		return err
	}
	return poll(func() error {
		if !isStopped(p.pid()) {
			return errors.New("the process is not paused")
		}
		return nil
	})
}

// run starts the process and waits until ready returns nil.
func (p *process) run(ready func() error) error {
	if err := p.start(); err != nil {
		return err
	}
	ended := p.ended()
	err := poll(func() error {
		select {
		case <-ended:
			return errEnded
		default:
			return ready()
		}
	})
	if err != nil {
		return fmt.Errorf("%s: %w; output:\n%s", p.binary, err, bytes.TrimSpace(p.output()))
	}
	return nil
}

// errEnded makes poll return early because the process has ended.
var errEnded = errors.New("the process has ended")

// poll calls check until it returns nil, or for maxWait; then it returns the last
// error.
func poll(check func() error) error {
	for begun, pause := time.Now(), time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := check()
		if err == nil || errors.Is(err, errEnded) || time.Since(begun) > maxWait {
			return err
		}
		time.Sleep(pause)
	}
}

// every returns a function that calls the function do at most once in each time span of
// length d. It returns the error of the last call of do.
func every(d time.Duration, do func() error) func() error {
	var last time.Time
	var err error
	return func() error {
		if now := time.Now(); last.IsZero() || now.Sub(last) >= d {
			last, err = now, do()
		}
		return err
	}
}

// await calls check until it returns nil, and ends the test if it still returns an
// error after maxWait. The parameter what describes the condition in the failure
// message.
func await(t testing.TB, what string, check func() error) {
	t.Helper()
	if err := poll(check); err != nil {
		t.Fatalf("waited %v for %s: %v", maxWait, what, err)
	}
}

// Log collects the output of a server while a test reads it. It may be used
// concurrently. The zero value is empty.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends to the log. It never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns all output so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Clear removes all output so far.
func (l *Log) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = strings.Builder{}
}
