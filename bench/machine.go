package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Machine describes what a measurement ran on, without naming the machine.
type Machine struct {
	CPU    string
	Cores  int
	Kernel string
	Go     string
	Commit string // of Headgate; empty outside a checkout
}

// ThisMachine is the description of the machine that asks.
func ThisMachine() Machine {
	m := Machine{CPU: runtime.GOARCH, Cores: runtime.NumCPU(), Kernel: runtime.GOOS, Go: runtime.Version()}
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		m.CPU = model
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = "Linux " + strings.TrimSpace(string(release))
	}
	if commit, err := exec.Command("git", "describe", "--always", "--dirty").Output(); err == nil {
		m.Commit = strings.TrimSpace(string(commit))
	}
	return m
}

// String has a line for each fact, in the form that benchstat reads as configuration.
func (m Machine) String() string {
	return fmt.Sprintf("cpu: %s\ncores: %d\nkernel: %s\ngo: %s\ncommit: %s\n", m.CPU, m.Cores, m.Kernel, m.Go, m.Commit)
}

// Keep opens the file in which a measurement of the given kind is kept, and begins it with m. Without a directory nothing is
// kept.
func (m Machine) Keep(dir, kind string) (io.WriteCloser, error) {
	if dir == "" {
		return report{io.Discard, io.NopCloser(nil)}, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	file, err := os.Create(m.resultFile(dir, kind))
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(os.Stderr, "kept in", file.Name())
	fmt.Fprintln(file, m)
	return file, nil
}

type report struct {
	io.Writer
	io.Closer
}

// OpenReport opens the report of a measurement of the given kind: standard output and the file that [Machine.Keep] opens. Both begin
// with this machine.
func OpenReport(dir, kind string) (io.WriteCloser, error) {
	m := ThisMachine()
	kept, err := m.Keep(dir, kind)
	if err != nil {
		return nil, err
	}
	fmt.Println(m)
	return report{io.MultiWriter(os.Stdout, kept), kept}, nil
}

// resultFile is <dir>/<date>-<machine>-<kind>.txt.
func (m Machine) resultFile(dir, kind string) string {
	words := strings.FieldsFunc(strings.ToLower(m.CPU), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	name := fmt.Sprintf("%s-%s-%dcores-%s.txt", time.Now().UTC().Format(time.DateOnly), strings.Join(words, "-"), m.Cores, kind)
	return filepath.Join(dir, name)
}

// Exit ends a command: with status 1 if err is not nil, after printing err.
func Exit(command string, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, command+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// ProcessorTime returns the processor time that a process has used, to a hundredth of a second, or 0 where there is no /proc.
func ProcessorTime(pid int) time.Duration {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// RSS is the resident memory of this process, now and at its highest, in bytes; zero where there is no /proc.
func RSS() (now, peak int64) { return kilobytes("VmRSS"), kilobytes("VmHWM") }

func kilobytes(name string) int64 {
	kb, _ := strconv.ParseInt(strings.TrimSuffix(field("/proc/self/status", name), " kB"), 10, 64)
	return kb * 1024
}

// field is the value of the first line "name: value" of a file under /proc, or empty.
func field(file, name string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
