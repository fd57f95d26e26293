package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // the deb format
	_ "github.com/goreleaser/nfpm/v2/rpm" // the rpm format
)

// writePackages writes the deb and the rpm package of a Linux target, as described in
// packaging/nfpm.yaml.
func (r *release) writePackages(target string) error {
	staged, err := r.stage(target)
	if err != nil {
		return err
	}
	_, arch, _ := strings.Cut(target, "/")
	values := map[string]string{"STAGE": staged, "ARCH": arch, "VERSION": r.commit.number()}
	for _, format := range []string{"deb", "rpm"} {
		if err := r.writePackage(format, values); err != nil {
			return fmt.Errorf("%s: %w", format, err)
		}
	}
	return nil
}

func (r *release) writePackage(format string, values map[string]string) error {
	description, err := os.Open(filepath.Join(r.source, "packaging/nfpm.yaml"))
	if err != nil {
		return err
	}
	defer func() { _ = description.Close() }()
	config, err := nfpm.ParseWithEnvMapping(description, func(name string) string { return values[name] })
	if err != nil {
		return err
	}
	info, err := config.Get(format)
	if err != nil {
		return err
	}
	info.MTime = r.commit.Time
	r.resolve(info)
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	info = nfpm.WithDefaults(info)
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(r.out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	if err := packager.Package(info, out); err != nil {
		return err
	}
	return out.Close()
}

// resolve makes the paths in packaging/nfpm.yaml absolute.
func (r *release) resolve(info *nfpm.Info) {
	paths := []*string{&info.Scripts.PostInstall, &info.Scripts.PreRemove, &info.Scripts.PostRemove}
	for _, content := range info.Contents {
		paths = append(paths, &content.Source)
	}
	for _, path := range paths {
		if !filepath.IsAbs(*path) {
			*path = filepath.Join(r.source, *path)
		}
	}
}

// stage creates the folder with the files of a package that are not copied from the
// sources: the program, the unit with the path of the program in a package, the manual
// pages and the completion scripts. It returns the path of the folder.
func (r *release) stage(target string) (string, error) {
	staged := filepath.Join(r.work, "stage", filepath.FromSlash(target))
	unit, err := os.ReadFile(filepath.Join(r.source, "packaging/headgate.service"))
	if err != nil {
		return "", err
	}
	program, err := os.ReadFile(r.binary(target))
	if err != nil {
		return "", err
	}
	extras, err := folderFiles(filepath.Join(r.work, "extras"), "")
	if err != nil {
		return "", err
	}
	for i, page := range extras {
		if strings.HasPrefix(page.name, "man/") {
			extras[i].name += ".gz"
			if extras[i].content, err = gzipped(page.content); err != nil {
				return "", err
			}
		}
	}
	return staged, writeFiles(staged, append(extras,
		file{name: "headgate.service", content: []byte(strings.ReplaceAll(string(unit), "=/usr/local/bin/", "=/usr/bin/")), mode: 0o644},
		file{name: "headgate", content: program, mode: 0o755}))
}

func writeFiles(folder string, all []file) error {
	for _, f := range all {
		path := filepath.Join(folder, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, f.content, os.FileMode(f.mode)); err != nil {
			return err
		}
	}
	return nil
}
