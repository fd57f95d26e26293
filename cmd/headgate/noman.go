//go:build nomanual

package main

import "github.com/spf13/cobra"

// manualCommands returns nothing: see man.go.
func manualCommands() []*cobra.Command { return nil }
