package redisstore

import "strings"

// slotOf returns the cluster's hash slot of a key with the given hash tag: the lowest
// 14 bits of the CRC-16 (XMODEM) of the tag.
func slotOf(tag string) uint16 {
	var crc uint16
	for i := 0; i < len(tag); i++ {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^tag[i]]
	}
	return crc & 0x3fff
}

var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()

// hashTag returns the part of a key that determines its hash slot: the text between the
// first { and the next } if there is any, or else the whole key.
func hashTag(key string) string {
	if _, after, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(after, "}"); closed && tag != "" {
			return tag
		}
	}
	return key
}
