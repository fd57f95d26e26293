package dashboard_test

import (
	"bufio"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"
)

// traffic sends requests of several customers, as a real service would get them, until
// the returned function is called.
func (s *running) traffic(t testing.TB) (stop func()) {
	t.Helper()
	conn, err := net.Dial("tcp", s.resp)
	if err != nil {
		t.Fatal(err)
	}
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		defer conn.Close()
		replies := bufio.NewReader(conn)
		for beat := 0; ; beat++ {
			select {
			case <-ended:
				return
			case <-time.After(50 * time.Millisecond):
			}
			batch := requestsAt(beat)
			if _, err := conn.Write([]byte(strings.Join(batch, ""))); err != nil {
				return
			}
			skipReplies(replies, len(batch))
		}
	}()
	return func() { close(ended); <-done }
}

// requestsAt returns the requests of one twentieth of a second.
func requestsAt(beat int) (batch []string) {
	add := func(n float64, policy, keys string, customers, cost int) {
		for i := range int(n) {
			batch = append(batch, fmt.Sprintf("HG.CHECK %s %s%d %d\r\n", policy, keys, (beat*7+i*i)%customers, cost))
		}
	}
	wave := 1 + 0.3*math.Sin(float64(beat)/160) + 0.1*math.Sin(float64(beat)/23)
	add(30*wave, "api", "customer-", 40, 1)
	batch = append(batch, "HG.CHECK api acme\r\n", "HG.CHECK search acme\r\n")
	add(4*wave, "search", "customer-", 3, 1)
	add(1.5*wave, "tokens", "team-", 12, 400)
	if beat%10 == 0 {
		add(1, "login", "203.0.113.", 9, 1)
		add(1, "upload", "customer-", 6, 1)
	}
	if beat%40 == 0 {
		batch = append(batch, "HG.CHECK tokens acme 300\r\n", "HG.CHECK login acme\r\n")
	}
	return batch
}
