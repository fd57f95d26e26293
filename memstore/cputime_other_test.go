//go:build !unix

package memstore_test

import "testing"

// processorTime returns 0, because this operating system does not report it.
func processorTime(*testing.B) int64 { return 0 }
