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

// maxFiles and maxFolderBytes limit the number and the total size of the files in a
// folder.
const (
	maxFiles       = 10_000
	maxFolderBytes = 64 << 20
)

// LoadOptions are the options of [Load]. A field with the zero value has its default; a
// nil pointer means all defaults.
type LoadOptions struct {
	ParseOptions
	// DotFiles includes files whose names begin with a dot; by default, they are
	// ignored.
	DotFiles bool
}

// Load reads all files of a folder whose names end in .yaml, in the order of their
// names. It does not read subfolders. If files are invalid, it returns [Errors]. It
// returns a different error if the folder cannot be read or keeps changing. The
// parameter opts may be nil.
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

// ReadFolder returns the contents of all files of a folder whose names end in .yaml.
// All contents are of the same version, even if the folder is updated by swapping
// symbolic links, as Kubernetes does: ReadFolder resolves the folder once, and tries
// again, up to ten times in total, if the link ..data in the folder has changed in the
// meantime.
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

// resolveDataLink returns the path from which to read the file name in folder. If the
// file is a symbolic link through ..data, it returns the path below the parameter data,
// which is the target of ..data. Otherwise, two files could be read from different
// versions if ..data is swapped between the reads.
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

// readFile reads a file. If the file has more than MaxFileBytes bytes, it returns
// MaxFileBytes+1 zero bytes, which the caller rejects.
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
		return make([]byte, MaxFileBytes+1), nil // the caller rejects the file because of its size
	}
	return os.ReadFile(path)
}
