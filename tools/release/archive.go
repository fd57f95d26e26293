package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is a file in an archive. A file with a link is a symbolic link.
type file struct {
	name    string
	content []byte
	mode    int64
	link    string
}

// folderFiles returns the files below folder, with names that begin with prefix.
func folderFiles(folder, prefix string) ([]file, error) {
	var all []file
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		below, _ := filepath.Rel(folder, path)
		all = append(all, file{name: prefix + filepath.ToSlash(below), content: content, mode: 0o644})
		return err
	})
	return all, err
}

// archiveFiles returns the files of the archive of a platform.
func (r *release) archiveFiles(target string) ([]file, error) {
	folder := r.name(target) + "/"
	all, err := folderFiles(filepath.Join(r.work, "extras"), folder)
	if err != nil {
		return nil, err
	}
	program := r.binary(target)
	wanted := map[string]string{
		filepath.Base(program): program, "LICENSE": "LICENSE", "README.md": "README.md", "CHANGELOG.md": "CHANGELOG.md",
		"headgate.yaml": "packaging/headgate.yaml",
	}
	if strings.HasPrefix(target, "linux/") {
		wanted["headgate.service"] = "packaging/headgate.service"
	}
	for name, path := range wanted {
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.source, path)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		mode := int64(0o644)
		if path == program {
			mode = 0o755
		}
		all = append(all, file{name: folder + name, content: content, mode: mode})
	}
	return all, nil
}

// writeArchive writes a .tar.gz file, or a .zip file for Windows.
func (r *release) writeArchive(target string) error {
	all, err := r.archiveFiles(target)
	if err != nil {
		return err
	}
	path, pack := filepath.Join(r.out, r.name(target)), compressed
	if strings.HasPrefix(target, "windows/") {
		path, pack = path+".zip", zipped
	} else {
		path += ".tar.gz"
	}
	content, err := pack(all, r.commit.Time)
	if err != nil {
		return err
	}
	return os.WriteFile(path, content, 0o644)
}

// tarred returns a tar archive with the files and their folders in the order of their
// names, all with the same time and owner.
func tarred(all []file, at time.Time) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, f := range withFolders(all) {
		header := &tar.Header{Name: f.name, Mode: f.mode, ModTime: at, Size: int64(len(f.content)), Typeflag: tar.TypeReg, Format: tar.FormatPAX}
		switch {
		case f.link != "":
			header.Typeflag, header.Linkname = tar.TypeSymlink, f.link
		case strings.HasSuffix(f.name, "/"):
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

// withFolders adds the folders of all files and sorts by name.
func withFolders(all []file) []file {
	known := make(map[string]bool)
	sorted := slices.Clone(all)
	for _, f := range all {
		for i, c := range f.name {
			if folder := f.name[:i+1]; c == '/' && !known[folder] {
				known[folder] = true
				sorted = append(sorted, file{name: folder, mode: 0o755})
			}
		}
	}
	slices.SortFunc(sorted, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	return sorted
}

// compressed returns a .tar.gz archive.
func compressed(all []file, at time.Time) ([]byte, error) {
	content, err := tarred(all, at)
	if err != nil {
		return nil, err
	}
	return gzipped(content)
}

// gzipped compresses content. The header has neither a name nor a time.
func gzipped(content []byte) ([]byte, error) {
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	err = w.Close()
	return buf.Bytes(), err
}

// zipped returns a .zip archive.
func zipped(all []file, at time.Time) ([]byte, error) {
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, f := range withFolders(all) {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: at}
		header.SetMode(os.FileMode(f.mode))
		part, err := w.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := part.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

// writeChecksums writes SHA256SUMS, which “sha256sum --check” reads.
func writeChecksums(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return os.WriteFile(filepath.Join(folder, "SHA256SUMS"), []byte(text.String()), 0o644)
}
