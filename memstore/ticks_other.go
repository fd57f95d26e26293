//go:build !amd64 && !arm64

package memstore

const hasTicks = false

func ticks() uint64 { return 0 }
