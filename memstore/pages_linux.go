package memstore

import (
	"syscall"
	"unsafe"
)

const largePage = 2 << 20

// preferLargePages asks for large pages for a slab of several. It is a hint: whether it is followed changes no answer.
func preferLargePages(slots []slot) {
	if len(slots)*slotBytes < 4*largePage {
		return
	}
	b := unsafe.Slice((*byte)(unsafe.Pointer(&slots[0])), len(slots)*slotBytes)
	offset := -uintptr(unsafe.Pointer(&b[0])) % largePage
	b = b[offset:]
	_ = syscall.Madvise(b[:len(b)/largePage*largePage], syscall.MADV_HUGEPAGE)
}
