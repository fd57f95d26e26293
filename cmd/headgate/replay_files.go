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

// openLogs returns the logs that args name, and their size in bytes, or -1 if it is not
// known. A file that does not exist is an error before the replay begins.
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

// checkOutputs returns an error if --decisions or --html names a file that cannot be
// written, a log that is to be read, or the file of the other.
func checkOutputs(logs []string, stdin io.Reader, decisions, html string) error {
	if decisions != "" && decisions == html {
		return fmt.Errorf("--decisions and --html both name %s; name two files", decisions)
	}
	for _, output := range []struct{ flag, name string }{{"decisions", decisions}, {"html", html}} {
		if output.name == "" || output.flag == "decisions" && output.name == "-" {
			continue
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

// checkWritable returns an error if a file cannot be written. An existing file stays as
// it is, and a new one is removed. A pipe or a device is not opened, because that may
// block.
func checkWritable(name string) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && info.IsDir():
		return syscall.EISDIR
	case err == nil && !info.Mode().IsRegular():
		return nil
	}
	if _, err := os.Lstat(name); err == nil && info == nil {
		return nil // a symbolic link to a file that does not exist
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

// outputError returns the error for a file that cannot be written.
func outputError(flag, name string, err error) error {
	return fmt.Errorf("--%s: cannot write %s: %w", flag, name, causeOf(err))
}

// causeOf returns the cause in an error of package os, without the operation and the file
// name.
func causeOf(err error) error {
	if path := (*fs.PathError)(nil); errors.As(err, &path) {
		return path.Err
	}
	return err
}

// inputs returns the files that are to be read, standard input included.
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

// withDecisions calls run with the writer for the decisions: nil, stdout, or a file.
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

// lateFile truncates a file before the first write. A replay that fails earlier leaves
// the file as it was.
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

// brokenLogs returns an error for the logs that could not be read to their end, or nil.
func brokenLogs(report *replay.Report) error {
	var errs []error
	for _, log := range report.Logs {
		if log.Error != "" {
			errs = append(errs, fmt.Errorf("%s: %s; the report covers the part before", log.Name, log.Error))
		}
	}
	return errors.Join(errs...)
}

// writeWhole replaces a file atomically: it writes another file in the same folder and
// renames it. On an error the old file stays. A pipe or a device is written directly.
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
		_ = os.Remove(partial) // the first error is returned
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
