package envoyconfig

import "bytes"

// Glob is glob for a pattern.
func Glob(pattern string, text []byte) bool {
	return glob(bytes.Split([]byte(pattern), []byte("*")), text)
}
