package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// compile builds the static binary of target, unless it exists. The linker records the
// commit instead of -buildvcs, so that builds from a clone, from a linked worktree and
// from an archive of the sources are equal. The tags leave out gRPC's tracing pages
// and the writer of manual pages: see ADR 47.
func (r *release) compile(target string) error {
	path := r.binary(target)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return r.compileInto(path, target, "grpcnotrace,nomanual")
}

// compileInto builds the program for target, with these build tags, into the file path.
func (r *release) compileInto(path, target, tags string) error {
	goos, goarch, found := strings.Cut(target, "/")
	if !found {
		return fmt.Errorf("target %q must be like linux/amd64", target)
	}
	stamp := fmt.Sprintf("-s -w -X main.releaseVersion=%s -X main.releaseCommit=%s -X main.releaseDate=%s",
		r.commit.Version, r.commit.Hash, r.commit.Time.Format(time.RFC3339))
	cmd := exec.Command("go", "build", "-trimpath", "-tags="+tags, "-buildvcs=false", "-ldflags", stamp, "-o", path, "./cmd/headgate")
	cmd.Dir, cmd.Stderr = r.source, os.Stderr
	// Settings of this machine that would change the code are set to their defaults.
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+goarch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=",
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off")
	return cmd.Run()
}

// writeExtras writes the manual pages and the completion scripts into work/extras. A
// binary for this machine generates them.
func (r *release) writeExtras() error {
	host := runtime.GOOS + "/" + runtime.GOARCH
	program := filepath.Join(r.work, "with-manual")
	if err := r.compileInto(program, host, "grpcnotrace"); err != nil {
		return err
	}
	extras := filepath.Join(r.work, "extras")
	if err := exec.Command(program, "man", filepath.Join(extras, "man")).Run(); err != nil {
		return fmt.Errorf("manual pages: %w", err)
	}
	if err := os.MkdirAll(filepath.Join(extras, "completions"), 0o755); err != nil {
		return err
	}
	for shell, file := range map[string]string{
		"bash": "headgate.bash", "zsh": "_headgate", "fish": "headgate.fish", "powershell": "headgate.ps1",
	} {
		script, err := exec.Command(program, "completion", shell).Output()
		if err != nil {
			return fmt.Errorf("completion script for %s: %w", shell, err)
		}
		if err := os.WriteFile(filepath.Join(extras, "completions", file), script, 0o644); err != nil {
			return err
		}
	}
	return nil
}
