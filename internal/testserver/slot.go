package testserver

import "strings"

// slots is how many slots a cluster has.
const slots = 1 << 14

// Slot is the slot of a key in a cluster: of what stands between the first { and the next }, if anything does, or else of all.
func Slot(key string) int {
	if _, after, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(after, "}"); closed && tag != "" {
			key = tag
		}
	}
	var sum uint16 // CRC-16/XMODEM
	for _, b := range []byte(key) {
		sum ^= uint16(b) << 8
		for range 8 {
			carry := sum & 0x8000
			sum <<= 1
			if carry != 0 {
				sum ^= 0x1021
			}
		}
	}
	return int(sum) % slots
}
