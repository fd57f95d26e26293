package memstore

import (
	"syscall"
	"unsafe"
)

const hugePageBytes = 2 << 20

// adviseHugePages asks the kernel to map a slab with huge pages if it spans several.
// The result does not depend on whether the kernel follows this hint.
func adviseHugePages(slots []slot) {
	if len(slots)*slotBytes < 4*hugePageBytes {
		return
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&slots[0])), len(slots)*slotBytes)
	offset := -uintptr(unsafe.Pointer(&b[0])) % hugePageBytes
	b = b[offset:]
	_ = syscall.Madvise(b[:len(b)/hugePageBytes*hugePageBytes], syscall.MADV_HUGEPAGE)
}
