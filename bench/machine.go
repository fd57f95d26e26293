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

// Machine describes the hardware and software on which a measurement is made, without
// the host name.
type Machine struct {
	CPU    string
	Cores  int
	Kernel string
	Go     string
	Commit string // commit of Headgate; empty outside a Git checkout
}

// ThisMachine returns the description of the machine on which the program runs.
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

// String returns one line for each property, in the format of benchstat's configuration
// lines.
func (m Machine) String() string {
	return fmt.Sprintf("cpu: %s\ncores: %d\nkernel: %s\ngo: %s\ncommit: %s\n", m.CPU, m.Cores, m.Kernel, m.Go, m.Commit)
}

// Keep creates a result file in dir for a measurement of the given kind, writes the
// description m to it and returns it. If dir is empty, it returns a writer that
// discards everything.
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
	fmt.Fprintln(os.Stderr, "writing results to", file.Name())
	fmt.Fprintln(file, m)
	return file, nil
}

type report struct {
	io.Writer
	io.Closer
}

// OpenReport returns a writer for the report of a measurement of the given kind. The
// report goes to standard output and to the file that [Machine.Keep] creates in dir. It
// begins with the description of this machine.
func OpenReport(dir, kind string) (io.WriteCloser, error) {
	m := ThisMachine()
	file, err := m.Keep(dir, kind)
	if err != nil {
		return nil, err
	}
	fmt.Println(m)
	return report{io.MultiWriter(os.Stdout, file), file}, nil
}

// resultFile returns the path <dir>/<date>-<machine>-<kind>.txt.
func (m Machine) resultFile(dir, kind string) string {
	words := strings.FieldsFunc(strings.ToLower(m.CPU), func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') })
	name := fmt.Sprintf("%s-%s-%dcores-%s.txt", time.Now().UTC().Format(time.DateOnly), strings.Join(words, "-"), m.Cores, kind)
	return filepath.Join(dir, name)
}

// Exit ends a command if err is not nil: it prints err and exits with status 1.
func Exit(command string, err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, command+":", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// ProcessorTime returns the processor time that a process has used, with a resolution
// of 10 ms, or 0 if /proc does not exist.
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

// RSS returns the current and the maximum resident memory of this process in bytes, or
// zeros if /proc does not exist.
func RSS() (now, peak int64) { return kilobytes("VmRSS"), kilobytes("VmHWM") }

func kilobytes(name string) int64 {
	kb, _ := strconv.ParseInt(strings.TrimSuffix(field("/proc/self/status", name), " kB"), 10, 64)
	return kb * 1024
}

// field returns the value in the first line “name: value” of a file in /proc, or an
// empty string if it has no such line.
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
