package testserver_test

import (
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

func TestMemcached(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(testing.TB, ...string) *testserver.MemcachedServer{
		"tcp": testserver.Memcached, "unix": testserver.MemcachedUnix,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, "-m", "7")
			if got := s.Do(t, "stats settings"); !slices.Contains(got, "STAT maxbytes 7340032") {
				t.Errorf("settings with -m 7: got %q want maxbytes 7340032", got)
			}
			s.Do(t, "set k 5 0 7\r\na\r\nEND\r")
			if got, want := s.Do(t, "get k"), []string{"VALUE k 5 7", "a\r\nEND\r", "END"}; !slices.Equal(got, want) {
				t.Errorf("get k: got %q want %q", got, want)
			}
			if _, err := s.Try("nonsense"); err == nil {
				t.Error("nonsense: got no error want one")
			}
			if s.Network() != name {
				t.Errorf("network: got %s want %s", s.Network(), name)
			}
			s.Kill()
			if _, err := s.Try("version"); err == nil {
				t.Error("version after Kill: got no error want one")
			}
			s.Start()
			if got, want := s.Do(t, "get k"), []string{"END"}; !slices.Equal(got, want) {
				t.Errorf("get k after a restart: got %q want %q", got, want)
			}
		})
	}
}

func TestPausedMemcachedRepliesAfterResume(t *testing.T) {
	t.Parallel()
	s := testserver.Memcached(t)
	s.Stop()
	answered := make(chan error, 1)
	go func() {
		_, err := s.Try("version")
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("version of a stopped server: got an answer, error %v want none", err)
	case <-time.After(50 * time.Millisecond):
	}
	s.Continue()
	if err := <-answered; err != nil {
		t.Errorf("version after Continue: got %v want no error", err)
	}
}
