// Command release builds the artefacts of a release into a folder: archives with static
// binaries, deb and rpm packages, a container image as an OCI layout, the Helm chart, a
// bill of materials for each binary, and SHA256SUMS. It needs no Docker and no root.
//
//	cd tools/release && go run . -out ../../dist/release
//
// The output depends on the commit and the version of Go only: two runs write the same
// bytes. docs/internals/releasing.md describes the artefacts.
package main

import (
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// allTargets lists the released platforms. Packages and the image are built for Linux
// only.
const allTargets = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64"

func main() {
	source := flag.String("source", "../..", "root of the repository")
	out := flag.String("out", "../../dist/release", "output folder; its content is replaced")
	targets := flag.String("targets", allTargets, "platforms, separated by commas")
	version := flag.String("version", "", "version; default: the tag of the commit, or a pseudo-version")
	flag.Parse()
	if err := run(*source, *out, *targets, *version); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(source, out, targets, version string) error {
	r := &release{source: absolute(source), out: absolute(out), targets: strings.Split(targets, ",")}
	var err error
	if r.commit, err = commitAt(r.source, version); err != nil {
		return err
	}
	if r.work, err = os.MkdirTemp("", "headgate-release"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(r.work) }()
	return r.build()
}

// release is the state of one run.
type release struct {
	source, out string
	work        string // removed at the end
	targets     []string
	commit      commit
}

func (r *release) build() error {
	if err := os.RemoveAll(r.out); err != nil {
		return err
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if err := r.writeExtras(); err != nil {
		return err
	}
	var linux []string
	for _, target := range r.targets {
		slog.Info("building", "target", target, "version", r.commit.Version)
		if err := r.buildTarget(target); err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		if strings.HasPrefix(target, "linux/") {
			linux = append(linux, target)
		}
	}
	if err := r.writeImage(linux); err != nil {
		return fmt.Errorf("image: %w", err)
	}
	if err := r.writeChart(); err != nil {
		return fmt.Errorf("chart: %w", err)
	}
	return writeChecksums(r.out)
}

// buildTarget writes all artefacts of one platform except the image.
func (r *release) buildTarget(target string) error {
	if err := r.compile(target); err != nil {
		return err
	}
	if err := r.writeSBOM(target); err != nil {
		return err
	}
	if err := r.writeArchive(target); err != nil {
		return err
	}
	if !strings.HasPrefix(target, "linux/") {
		return nil
	}
	return r.writePackages(target)
}

// binary returns the path of the compiled program for a platform such as linux/amd64.
func (r *release) binary(target string) string {
	name := "headgate"
	if strings.HasPrefix(target, "windows/") {
		name += ".exe"
	}
	return filepath.Join(r.work, filepath.FromSlash(target), name)
}

// name returns the common beginning of the file names of a platform:
// headgate_0.2.0_linux_amd64.
func (r *release) name(target string) string {
	return "headgate_" + r.commit.number() + "_" + strings.ReplaceAll(target, "/", "_")
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}
