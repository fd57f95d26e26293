//go:build !linux

package memstore

// adviseHugePages does nothing, because this operating system has no such hint.
func adviseHugePages([]slot) {}
