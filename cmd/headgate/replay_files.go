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

	"github.com/headgate/headgate/replay"
)

// openLogs are the logs that args name, and how many bytes they have, or -1 if that is not known. A name that cannot be read is
// refused before anything is replayed.
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
			return nil, 0, fmt.Errorf("replay: %w", err)
		case info.IsDir():
			return nil, 0, fmt.Errorf("replay: %s is a directory; name the logs in it", name)
		case !info.Mode().IsRegular():
			total = -1
		case total >= 0:
			total += info.Size()
		}
		logs = append(logs, replay.Log{Name: name, Open: func() (io.ReadCloser, error) { return os.Open(name) }})
	}
	return logs, total, nil
}

// keepLogs refuses to write over a log that is to be read, and to write two things to one file.
func keepLogs(logs []string, stdin io.Reader, outputs ...string) error {
	if len(outputs) == 2 && outputs[0] != "" && outputs[0] == outputs[1] {
		return fmt.Errorf("replay: --decisions and --html both name %s; give each a file of its own", outputs[0])
	}
	for _, output := range outputs {
		target, err := os.Stat(output)
		if err != nil || !target.Mode().IsRegular() {
			continue // nothing there that could be lost
		}
		for _, info := range inputs(logs, stdin) {
			if os.SameFile(info, target) {
				return fmt.Errorf("replay: %s is a log to be read and would be overwritten; write to another file", output)
			}
		}
	}
	return nil
}

// inputs describes the files that are to be read, standard input among them.
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

// withDecisions calls run with where the decisions go: nowhere, to stdout, or to a file.
func withDecisions(name string, stdout io.Writer, run func(io.Writer) (*replay.Report, error)) (*replay.Report, error) {
	switch name {
	case "":
		return run(nil)
	case "-":
		return run(stdout)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o666)
	if err != nil {
		return nil, fmt.Errorf("--decisions: %w", err)
	}
	report, err := run(&lateFile{file: file})
	if closeErr := file.Close(); closeErr != nil && err == nil {
		return nil, fmt.Errorf("--decisions: %w", closeErr)
	}
	return report, err
}

// lateFile empties a file when something is written, so that a replay which never gets there leaves what was in it.
type lateFile struct {
	file    *os.File
	emptied bool
}

func (f *lateFile) Write(p []byte) (int, error) {
	if info, err := f.file.Stat(); !f.emptied && err == nil && info.Mode().IsRegular() {
		if err := f.file.Truncate(0); err != nil {
			return 0, err
		}
	}
	f.emptied = true
	return f.file.Write(p)
}

// writeJSON writes what a person may read as well.
func writeJSON(w io.Writer, value any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(value)
}

// brokenLogs is an error for the logs that could not be read to their end.
func brokenLogs(report *replay.Report) error {
	var errs []error
	for _, log := range report.Logs {
		if log.Error != "" {
			errs = append(errs, fmt.Errorf("replay: %s: %s; what came before is in the report", log.Name, log.Error))
		}
	}
	return errors.Join(errs...)
}

// writeWhole writes a file wholly or leaves what was there: it is written under another name beside it and renamed. What is no
// regular file, such as a pipe, is written as it is.
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
		_ = os.Remove(partial) // the first error says more
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
