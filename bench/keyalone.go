package bench

// keyAlone is a limiter that decides nothing. It shows the cost of the benchmark loop:
// choosing a key, writing its text and calling Allow.
type keyAlone struct{}

func newKeyAlone(Limit, int) (Limiter, error) { return keyAlone{}, nil }

func (keyAlone) Allow(key string) bool { return key[len(key)-1] != 0 }

func (keyAlone) Drain(string) {}
