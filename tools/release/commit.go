package main

import (
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// commit identifies what is released.
type commit struct {
	Version string // v0.2.0
	Hash    string
	Time    time.Time
}

// number returns the version without its v.
func (c commit) number() string { return strings.TrimPrefix(c.Version, "v") }

// commitAt reads the commit that is checked out in folder. If version is
// empty, it uses the tag of the commit, or a pseudo-version as in Go, and adds “modified”
// if files differ from the commit.
func commitAt(folder, version string) (commit, error) {
	hash, err := git(folder, "rev-parse", "HEAD")
	if err != nil {
		return commit{}, err
	}
	date, err := git(folder, "show", "-s", "--format=%cI", "HEAD")
	if err != nil {
		return commit{}, err
	}
	at, err := time.Parse(time.RFC3339, date)
	if err != nil {
		return commit{}, fmt.Errorf("date of the commit: %w", err)
	}
	c := commit{Version: version, Hash: hash, Time: at.UTC()}
	if version == "" {
		c.Version, err = versionAt(folder, c)
	}
	return c, err
}

func versionAt(folder string, c commit) (string, error) {
	version := fmt.Sprintf("v0.0.0-%s-%s", c.Time.Format("20060102150405"), c.Hash[:12])
	if tag, err := git(folder, "describe", "--exact-match", "--tags", "--match=v[0-9]*", "HEAD"); err == nil {
		version = tag
	}
	changes, err := git(folder, "status", "--porcelain")
	if err != nil || changes == "" {
		return version, err
	}
	if strings.Contains(version, "-") {
		return version + ".modified", nil
	}
	return version + "-modified", nil
}

func git(folder string, args ...string) (string, error) {
	cmd := exec.Command("git", append([]string{"-C", folder}, args...)...)
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(text)), nil
}
