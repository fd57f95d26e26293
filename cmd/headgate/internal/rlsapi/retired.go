package rlsapi

import "strings"

// removedRules is what the counters of rules that are gone go on as, beside others with which they are added up.
const removedRules = ".removed"

// keep drops the counters that none of the rules uses, nor a name that requests made of one of them.
func (s *stats) keep(r *rules) {
	s.mu.Lock()
	defer s.mu.Unlock()
	used := map[*Counter]bool{s.counters[Others]: true}
	varies := make(map[string]bool)
	for i, rule := range r.config.Rules() {
		if c := r.ready[i].counter; c != nil {
			used[c] = true
		} else {
			varies[rule.Path] = true
		}
	}
	for raw, n := range s.asked {
		if varies[n.by] || r.config.Domain(n.by) != nil {
			used[n.counter] = true
		} else {
			delete(s.asked, raw)
		}
	}
	s.drop(used)
}

// drop forgets all counters but some. Prometheus shows only the sum of those that begin alike, and takes a sum that falls for a restart:
// where one of them stays, those that go are kept together.
func (s *stats) drop(used map[*Counter]bool) {
	stay := make(map[string]bool)
	for name, c := range s.counters {
		if used[c] {
			stay[levels(name)] = true
		}
	}
	for name, c := range s.counters {
		begin := levels(name)
		rest := begin + removedRules
		if used[c] || name == rest && stay[begin] {
			continue
		}
		if stay[begin] {
			s.counterOf(rest).add(c)
		}
		delete(s.counters, name)
	}
}

// levels is the beginning of a name that Prometheus shows: the domain and two levels.
func levels(name string) string {
	end := 0
	for range 3 {
		next := strings.IndexByte(name[end:], '.')
		if next < 0 {
			return name
		}
		end += next + 1
	}
	return name[:end-1]
}
