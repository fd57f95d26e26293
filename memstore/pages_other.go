//go:build !linux

package memstore

// preferLargePages does nothing where there is no such hint.
func preferLargePages([]slot) {}
