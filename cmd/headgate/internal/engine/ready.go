package engine

// Ready reports why a limit that checks may bring could not be decided under, so that a door knows when it reads its configuration and
// not at the first request; nil if it can. It does no I/O.
func (s *Snapshot) Ready(own *Own) error {
	_, err := s.ownRule(own)
	return err
}
