package envoyconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxFiles and maxFolderBytes bound the files of a folder.
const (
	maxFiles       = 10_000
	maxFolderBytes = 64 << 20
)

// LoadOptions are the options of [Load]. Zero fields and a nil pointer select the
// defaults.
type LoadOptions struct {
	ParseOptions
	// DotFiles includes files whose names begin with a dot.
	DotFiles bool
}

// Load reads all files *.yaml of a folder in the order of their names, without
// subfolders. If a file is invalid, the error is [Errors]. Load returns another error
// if the folder cannot be read or keeps changing. opts may be nil.
func Load(folder string, opts *LoadOptions) (*Config, error) {
	if opts == nil {
		opts = &LoadOptions{}
	}
	files, err := ReadFolder(folder, opts.DotFiles)
	if err != nil {
		return nil, err
	}
	return Parse(files, &opts.ParseOptions)
}

// ReadFolder returns the contents of all files *.yaml of a folder. If symbolic links
// are swapped, as Kubernetes does, all contents are of one version: ReadFolder
// resolves the folder once and retries, up to ten times, if ..data in it changes.
func ReadFolder(folder string, dotFiles bool) ([]File, error) {
	for range 10 {
		real, err := filepath.EvalSymlinks(folder)
		if err != nil {
			return nil, fmt.Errorf("envoyconfig: %w", err)
		}
		before, _ := os.Readlink(filepath.Join(real, "..data"))
		files, err := readAll(real, dotFiles)
		after, _ := os.Readlink(filepath.Join(real, "..data"))
		again, _ := filepath.EvalSymlinks(folder)
		if before == after && again == real {
			return files, err
		}
	}
	return nil, fmt.Errorf("envoyconfig: folder %s kept changing while it was read", folder)
}

func readAll(folder string, dotFiles bool) ([]File, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("envoyconfig: %w", err)
	}
	data, _ := filepath.EvalSymlinks(filepath.Join(folder, "..data"))
	var files []File
	total := 0
	for _, entry := range entries {
		name := entry.Name()
		if filepath.Ext(name) != ".yaml" || !dotFiles && strings.HasPrefix(name, ".") {
			continue
		}
		content, err := readFile(resolveDataLink(folder, name, data))
		if errors.Is(err, errDirectory) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("envoyconfig: %w", err)
		}
		total += len(content)
		files = append(files, File{name, content})
		if len(files) > maxFiles || total > maxFolderBytes {
			return nil, fmt.Errorf("envoyconfig: folder %s has more than %d files or %d bytes", folder, maxFiles, maxFolderBytes)
		}
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// resolveDataLink returns the path of a file of folder. If the file is a link through
// ..data, the path is in data, the resolved ..data: the link may be swapped between
// reading two files.
func resolveDataLink(folder, name, data string) string {
	path := filepath.Join(folder, name)
	if data == "" {
		return path
	}
	target, err := os.Readlink(path)
	if inner, found := strings.CutPrefix(target, "..data/"); err == nil && found {
		return filepath.Join(data, inner)
	}
	return path
}

var errDirectory = errors.New("is a folder")

// readFile reads a file, at most MaxFileBytes+1 bytes.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errDirectory
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("not a regular file")}
	case info.Size() > MaxFileBytes:
		return make([]byte, MaxFileBytes+1), nil // refused for its size
	}
	return os.ReadFile(path)
}
