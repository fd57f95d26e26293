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
	FolderOptions
}

// FolderOptions select the files of a folder. The zero value selects the files in the
// folder itself whose names end in .yaml.
type FolderOptions struct {
	// DotFiles includes files whose names begin with a dot; by default, they are
	// ignored.
	DotFiles bool
	// AllFiles includes files with any name, and the files in subfolders, as in
	// envoyproxy/ratelimit. Subfolders that are symbolic links, or whose names begin
	// with two dots, as in Kubernetes, are ignored.
	AllFiles bool
}

// Load reads the files of a folder that the options select, in the order of their names.
// If files are invalid, it returns [Errors]. It returns a different error if the folder
// cannot be read or keeps changing. The parameter opts may be nil.
func Load(folder string, opts *LoadOptions) (*Config, error) {
	if opts == nil {
		opts = &LoadOptions{}
	}
	files, err := ReadFolder(folder, opts.FolderOptions)
	if err != nil {
		return nil, err
	}
	return Parse(files, &opts.ParseOptions)
}

// ReadFolder returns the contents of the files of a folder that the options select. It
// also returns files that look like rules and are not selected, without their contents.
// All contents are of the same version, even if the folder is updated by swapping
// symbolic links, as Kubernetes does: ReadFolder resolves the folder once, and tries
// again, up to ten times in total, if the link ..data in the folder has changed in the
// meantime.
func ReadFolder(folder string, opts FolderOptions) ([]File, error) {
	for range 10 {
		real, err := filepath.EvalSymlinks(folder)
		if err != nil {
			return nil, fmt.Errorf("envoyconfig: %w", err)
		}
		before, _ := os.Readlink(filepath.Join(real, "..data"))
		files, err := readAll(real, opts)
		after, _ := os.Readlink(filepath.Join(real, "..data"))
		again, _ := filepath.EvalSymlinks(folder)
		if before == after && again == real {
			return files, err
		}
	}
	return nil, fmt.Errorf("envoyconfig: folder %s kept changing while it was read", folder)
}

// folderReader reads the files of a folder.
type folderReader struct {
	FolderOptions
	folder string // without symbolic links
	data   string // target of the link ..data; empty if there is none
	files  []File
	total  int // total size of the files
}

func readAll(folder string, opts FolderOptions) ([]File, error) {
	r := &folderReader{FolderOptions: opts, folder: folder}
	r.data, _ = filepath.EvalSymlinks(filepath.Join(folder, "..data"))
	entries, err := os.ReadDir(folder) // WalkDir accepts a file instead of a folder
	for i := 0; err == nil && i < len(entries); i++ {
		err = filepath.WalkDir(filepath.Join(folder, entries[i].Name()), r.add)
	}
	if err != nil {
		return nil, fmt.Errorf("envoyconfig: %w", err)
	}
	slices.SortStableFunc(r.files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return r.files, nil
}

// add adds a file to r.files. It is called for each file and each subfolder.
func (r *folderReader) add(path string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	base := entry.Name()
	hidden := !r.DotFiles && strings.HasPrefix(base, ".")
	switch {
	case entry.IsDir() && (!r.AllFiles || hidden || strings.HasPrefix(base, "..")):
		return fs.SkipDir
	case entry.IsDir() || hidden:
		return nil
	}
	f := File{Name: strings.TrimPrefix(path, r.folder+string(filepath.Separator))}
	if !r.AllFiles && filepath.Ext(base) != ".yaml" {
		if f.Skipped = looksLikeRules(base); f.Skipped {
			r.files = append(r.files, f)
		}
		return nil
	}
	f.Content, err = readFile(r.resolveDataLink(path, f.Name))
	if errors.Is(err, errDirectory) {
		return nil
	}
	if err != nil {
		return err
	}
	r.total += len(f.Content)
	r.files = append(r.files, f)
	if len(r.files) > maxFiles || r.total > maxFolderBytes {
		return fmt.Errorf("folder %s has more than %d files or %d bytes", r.folder, maxFiles, maxFolderBytes)
	}
	return nil
}

// looksLikeRules reports whether the name of a file is one that users expect to be read.
func looksLikeRules(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name)))
}

// resolveDataLink returns the path from which to read the file name at path. If the file
// is a symbolic link through ..data, it returns the path below r.data. Otherwise, two
// files could be read from different versions if ..data is swapped between the reads.
func (r *folderReader) resolveDataLink(path, name string) string {
	if r.data == "" || strings.ContainsRune(name, filepath.Separator) {
		return path
	}
	target, err := os.Readlink(path)
	if inner, found := strings.CutPrefix(target, "..data/"); err == nil && found {
		return filepath.Join(r.data, inner)
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
