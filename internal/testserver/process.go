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

// patience is how long a server may take to come up, or to show what was done to it, on a machine that is busy.
const patience = 30 * time.Second

// process is a server's process, which can be killed and started again with the same command line.
type process struct {
	binary string
	args   []string
	dir    string   // holds its files; it is also where it runs
	env    []string // its environment; nil means ours

	mu   sync.Mutex
	cmd  *exec.Cmd     // nil before the first start
	done chan struct{} // closed when cmd has ended
}

// newProcess prepares a process that runs in a new folder. At the test's end it is killed and the folder removed; what it
// wrote is shown when the test failed.
func newProcess(t testing.TB, name, debian string) *process {
	t.Helper()
	binary, err := exec.LookPath(name)
	if err != nil {
		binary, err = exec.LookPath("/usr/sbin/" + name) // where only root looks by itself
	}
	if err != nil {
		t.Fatalf("%s is not installed: scripts/setup or apt-get install %s does it", name, debian)
	}
	dir, err := os.MkdirTemp("", "headgate-") // not t.TempDir: a socket's path may have 107 bytes, and tests have long names
	if err != nil {
		t.Fatal(err)
	}
	p := &process{binary: binary, dir: dir}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s said at last:\n%s", name, p.said())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("the folder of %s: %v", name, err)
		}
	})
	return p
}

func (p *process) path(name string) string { return filepath.Join(p.dir, name) }

// said is the end of what the process wrote.
func (p *process) said() []byte {
	text, _ := os.ReadFile(p.path("output"))
	const most = 2000
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return text
}

// start runs the process unless it runs. A thread of its own waits for it, because Linux ends such a child with the thread that
// made it, not with the process.
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
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = p.dir, p.env, output, output, diesWithUs()
	started, done := make(chan error), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		output.Close() //nolint:errcheck // the child has its own; this one wrote nothing
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed, as a rule: that is no news
			close(done)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	p.cmd, p.done = cmd, done
	return nil
}

// running reports whether the process is there, stopped or not. The caller holds p.mu.
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

// ended is closed when the process that was started last has ended.
func (p *process) ended() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.done
}

// kill ends the process, which may be stopped, and waits until it is gone.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running() {
		_ = p.cmd.Process.Kill() // it can only have ended by itself
		<-p.done
	}
}

// signal sends sig to a process that runs.
func (p *process) signal(sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.running() {
		return errors.New("it does not run")
	}
	return p.cmd.Process.Signal(sig)
}

// pid is the number of the process that was started last.
func (p *process) pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// stop stops the process and waits until it is.
func (p *process) stop() error {
	if err := p.signal(sigStop); err != nil {
		return err
	}
	return poll(func() error {
		if !isStopped(p.pid()) {
			return errors.New("it still runs")
		}
		return nil
	})
}

// run starts the process and waits until ready has no objection.
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
		return fmt.Errorf("%s: %w; it said:\n%s", p.binary, err, bytes.TrimSpace(p.said()))
	}
	return nil
}

// errEnded ends a poll: what was waited for can no longer come.
var errEnded = errors.New("it ended by itself")

// poll asks until there is no objection, or patience has passed; then it returns the last one.
func poll(ask func() error) error {
	for begun, pause := time.Now(), time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		err := ask()
		if err == nil || errors.Is(err, errEnded) || time.Since(begun) > patience {
			return err
		}
		time.Sleep(pause)
	}
}

// every makes a function that does something when it is called first, and then when d has passed since it did. It returns what
// came of it the last time.
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

// await ends the test if the objection to what is named stays.
func await(t testing.TB, what string, ask func() error) {
	t.Helper()
	if err := poll(ask); err != nil {
		t.Fatalf("waited %v for %s: %v", patience, what, err)
	}
}

// Log keeps what a server writes while tests look at it: it may be used concurrently. The zero value is empty.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write adds to the log. It never fails.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is all that was written.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
