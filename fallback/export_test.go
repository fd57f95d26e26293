package fallback

// Breakers returns the number of breakers of a store.
func Breakers(s *Store) int {
	if all := s.breakers.all.Load(); all != nil {
		return len(*all)
	}
	return 0
}
