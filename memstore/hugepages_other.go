//go:build !linux

package memstore

// adviseHugePages does nothing: this system has no such hint.
func adviseHugePages([]slot) {}
