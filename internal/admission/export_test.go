package admission

// Claims returns the number of stores with claims.
func Claims() int {
	claims.mu.Lock()
	defer claims.mu.Unlock()
	return len(claims.all)
}
