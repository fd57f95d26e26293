package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/headgate/headgate/replay"
)

// openLogs returns the logs whose paths are in args, or standard input, and their total
// size in bytes. The total is negative if a size is unknown. A file that does not exist
// is an error, so that the replay fails before it begins.
func openLogs(args []string, stdin io.Reader) (logs []replay.Log, total int64, err error) {
	if len(args) == 0 {
		args = []string{"-"}
	}
	for _, name := range args {
		if name == "-" {
			total = -1
			logs = append(logs, replay.Log{Name: "standard input", Open: func() (io.ReadCloser, error) { return io.NopCloser(stdin), nil }})
			continue
		}
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return nil, 0, fmt.Errorf("cannot read %s: %w", name, causeOf(err))
		case info.IsDir():
			return nil, 0, fmt.Errorf("%s is a directory; name the logs in it", name)
		case !info.Mode().IsRegular():
			total = -1
		case total >= 0:
			total += info.Size()
		}
		logs = append(logs, replay.Log{Name: name, Open: func() (io.ReadCloser, error) { return os.Open(name) }})
	}
	return logs, total, nil
}

// checkOutputs returns an error if the file of --decisions or --html cannot be written,
// is one of the logs, or is the same for both flags.
func checkOutputs(logs []string, stdin io.Reader, decisions, html string) error {
	if decisions != "" && decisions == html {
		return fmt.Errorf("--decisions and --html both name %s; name two files", decisions)
	}
	for _, output := range []struct{ flag, name string }{{"decisions", decisions}, {"html", html}} {
		switch {
		case output.name == "" || output.flag == "decisions" && output.name == "-":
			continue
		case output.name == "-":
			return fmt.Errorf("--%s: standard output has the text report; name a file", output.flag)
		}
		target, err := os.Stat(output.name)
		if err == nil && target.Mode().IsRegular() {
			for _, info := range inputs(logs, stdin) {
				if os.SameFile(info, target) {
					return fmt.Errorf("--%s: %s is one of the logs and would be overwritten; name another file", output.flag, output.name)
				}
			}
		}
		if err := checkWritable(output.name); err != nil {
			return outputError(output.flag, output.name, err)
		}
	}
	return nil
}

// checkWritable returns an error if a file cannot be written. It leaves an existing
// file unchanged and does not leave a new one behind. It does not open pipes and
// devices, because that may block.
func checkWritable(name string) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return syscall.EISDIR
	case err == nil && !info.Mode().IsRegular():
		return nil
	}
	if _, err := os.Lstat(name); err == nil && info == nil {
		return nil // a dangling symbolic link: opening it would create its target
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil || info != nil {
		return err
	}
	return os.Remove(name)
}

// outputError returns the error for an output file that cannot be written.
func outputError(flag, name string, err error) error {
	return fmt.Errorf("--%s: cannot write %s: %w", flag, name, causeOf(err))
}

// causeOf returns the cause in an error of package os, without the operation and the
// file name. It returns other errors unchanged.
func causeOf(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// inputs returns the file information of the logs, and of standard input if it is read.
func inputs(logs []string, stdin io.Reader) []os.FileInfo {
	var files []os.FileInfo
	for _, log := range logs {
		if info, err := os.Stat(log); err == nil && log != "-" {
			files = append(files, info)
		}
	}
	if file, ok := stdin.(*os.File); ok && (len(logs) == 0 || slices.Contains(logs, "-")) {
		if info, err := file.Stat(); err == nil {
			files = append(files, info)
		}
	}
	return files
}

// withDecisions calls run with the writer for the decisions: nil if name is "", stdout
// if name is "-", else the named file.
func withDecisions(name string, stdout io.Writer, run func(io.Writer) (*replay.Report, error)) (*replay.Report, error) {
	switch name {
	case "":
		return run(nil)
	case "-":
		return run(stdout)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, outputError("decisions", name, err)
	}
	report, err := run(&lateFile{file: file})
	if closeErr := file.Close(); closeErr != nil && err == nil {
		return nil, outputError("decisions", name, closeErr)
	}
	return report, err
}

// lateFile is a file that is truncated before the first write. If a replay fails before
// it writes, the file is unchanged.
type lateFile struct {
	file      *os.File
	truncated bool
}

func (f *lateFile) Write(p []byte) (int, error) {
	if info, err := f.file.Stat(); !f.truncated && err == nil && info.Mode().IsRegular() {
		if err := f.file.Truncate(0); err != nil {
			return 0, err
		}
	}
	f.truncated = true
	return f.file.Write(p)
}

// writeJSON writes a value as indented JSON.
func writeJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// brokenLogs returns an error for the logs that could not be read to the end, or nil.
func brokenLogs(report *replay.Report) error {
	var errs []error
	for _, log := range report.Logs {
		if log.Error != "" {
			errs = append(errs, fmt.Errorf("%s: %s; the report covers only the part before the error", log.Name, log.Error))
		}
	}
	return errors.Join(errs...)
}

// writeWhole replaces a file atomically: it writes a temporary file in the same folder
// and renames it. If that fails, the existing file is unchanged. writeWhole writes to
// pipes and devices directly.
func writeWhole(name string, write func(io.Writer) error) error {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return writeFile(name, os.O_WRONLY, write)
	}
	partial := fmt.Sprintf("%s.%d.partial", name, os.Getpid())
	err := writeFile(partial, os.O_WRONLY|os.O_CREATE|os.O_EXCL, write)
	if err == nil {
		err = os.Rename(partial, name)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		_ = os.Remove(partial) // only the first error is returned
	}
	return err
}

func writeFile(name string, flag int, write func(io.Writer) error) error {
	file, err := os.OpenFile(name, flag, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
