//go:build !nomanual

package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manualCommands returns the hidden command “headgate man”, with which a release makes
// the manual pages. Released programs do not contain it: its Markdown parser has 270 kB.
func manualCommands() []*cobra.Command {
	return []*cobra.Command{{
		Use:    "man FOLDER",
		Short:  "Write the manual pages of all commands into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),

		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeManual(cmd.Root(), args[0])
		},
	}}
}

// writeManual writes one page of section 1 for each command into folder, which it
// creates. The pages have the date of the commit, so that they are reproducible.
func writeManual(root *cobra.Command, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("man: %w", err)
	}
	date, err := time.Parse(time.RFC3339, releaseDate)
	if err != nil {
		date = time.Unix(0, 0).UTC()
	}
	number, _, _ := strings.Cut(version(), " ")
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Date: &date, Source: "Headgate " + number, Manual: "Headgate Manual"}
	if err := doc.GenManTree(root, header, folder); err != nil {
		return fmt.Errorf("man: %w", err)
	}
	return nil
}
