// Package starter has annotated configurations for a first use of the service. Each is
// valid as it is. Its comments show requests and their responses, which a test sends.
package starter

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

//go:embed files
var files embed.FS

// Case is one case of use.
type Case struct {
	Name  string
	Help  string // one line
	Files []File // the first is the configuration file
}

// File is a file that a case consists of.
type File struct {
	Path string // relative to the folder of the configuration file
	Text []byte
}

// Cases returns all cases. The first is the default.
func Cases() []Case {
	return []Case{
		newCase("api", "an application that sends a check for each request", "headgate.yaml", "api.yaml"),
		newCase("login", "a login form, limited by address and by account", "headgate.yaml", "login.yaml"),
		newCase("envoy", "the rate limit service of Envoy, with rules", "headgate.yaml", "envoy.yaml", "envoy/example.yaml", "envoy-rules.yaml"),
		newCase("nginx", "a site behind nginx, with the configuration of nginx", "headgate.yaml", "nginx.yaml", "headgate-nginx.conf", "headgate-nginx.conf"),
	}
}

// newCase returns a case with pairs of a path and the name of an embedded file.
func newCase(name, help string, pairs ...string) Case {
	c := Case{Name: name, Help: help}
	for i := 0; i < len(pairs); i += 2 {
		text, err := files.ReadFile("files/" + pairs[i+1])
		if err != nil {
			panic(err) // the file is embedded
		}
		c.Files = append(c.Files, File{filepath.FromSlash(pairs[i]), text})
	}
	return c
}

// Write writes the files of the case to a folder and returns their paths. If one of the
// files exists, it writes nothing and returns an error.
func (c Case) Write(folder string) (paths []string, err error) {
	for _, f := range c.Files {
		path := filepath.Join(folder, f.Path)
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			if err == nil {
				err = fmt.Errorf("%s exists and is not overwritten; name another folder, or remove it", path)
			}
			return nil, err
		}
		paths = append(paths, path)
	}
	for i, f := range c.Files {
		if err := create(paths[i], f.Text); err != nil {
			return nil, err
		}
	}
	return paths, nil
}

// create writes a new file. It returns an error if the file exists.
func create(path string, text []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.Write(text)
	return err
}
