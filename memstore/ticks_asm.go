//go:build amd64 || arm64

package memstore

const hasTicks = true

// ticks is the processor's counter of time: TSC, or CNTVCT_EL0.
func ticks() uint64
