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

// mostFiles bounds a folder, and mostBytes what lies in it.
const (
	mostFiles = 10_000
	mostBytes = 64 << 20
)

// LoadOptions say what of a folder is read. The zero value of each field is its default; nil means all defaults.
type LoadOptions struct {
	ParseOptions
	// DotFiles are read, too: files whose names begin with a point.
	DotFiles bool
}

// Load reads every *.yaml of a folder, in the order of their names. What is wrong with the files is [Errors]; a folder that cannot be
// read, or changes all the time, is another error. Folders below are not looked at. opts may be nil.
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

// ReadFolder is the text of every *.yaml of a folder. Where symbolic links are swapped as Kubernetes does it, all of them are of one
// time: the folder itself is looked up once, and a ..data in it is the same before and after.
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
	return nil, fmt.Errorf("envoyconfig: %s changed each time that it was read", folder)
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
		content, err := readFile(throughData(folder, name, data))
		if errors.Is(err, errFolder) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("envoyconfig: %w", err)
		}
		total += len(content)
		files = append(files, File{name, content})
		if len(files) > mostFiles || total > mostBytes {
			return nil, fmt.Errorf("envoyconfig: %s holds more than %d files or %d bytes", folder, mostFiles, mostBytes)
		}
	}
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return files, nil
}

// throughData is where a file of folder is, if it is a link through ..data in the folder that ..data was found to be: the link may be
// swapped there and back between two files.
func throughData(folder, name, data string) string {
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

var errFolder = errors.New("it is a folder")

// readFile reads a file whole, but no more than one byte over what is accepted.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errFolder
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: path, Err: errors.New("it is no file")}
	case info.Size() > MaxFileBytes:
		return make([]byte, MaxFileBytes+1), nil // refused by its size, whatever it says
	}
	return os.ReadFile(path)
}
