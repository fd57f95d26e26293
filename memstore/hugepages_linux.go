package memstore

import (
	"syscall"
	"unsafe"
)

const hugePageBytes = 2 << 20

// adviseHugePages asks the kernel to map the memory of slots with huge pages, if it has
// the size of at least four huge pages. This is only a hint: the store works without
// huge pages, too.
func adviseHugePages(slots []slot) {
	if len(slots)*slotBytes < 4*hugePageBytes {
		return
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&slots[0])), len(slots)*slotBytes)
	offset := -uintptr(unsafe.Pointer(&b[0])) % hugePageBytes
	b = b[offset:]
	_ = syscall.Madvise(b[:len(b)/hugePageBytes*hugePageBytes], syscall.MADV_HUGEPAGE)
}
