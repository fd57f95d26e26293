//go:build amd64 || arm64

package memstore

const hasTicks = true

// ticks returns the processor's time counter: TSC on amd64, CNTVCT_EL0 on arm64.
func ticks() uint64
