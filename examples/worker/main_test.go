package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
)

func mails(n int) <-chan string {
	jobs := make(chan string, n)
	for range n {
		jobs <- "a mail"
	}
	close(jobs)
	return jobs
}

func TestJobsRunAtTheRate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var out strings.Builder
		if err := work(t.Context(), &out, 4, mails(50)); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(out.String(), "sent"); got != 50 {
			t.Errorf("%d mails were sent, want 50", got)
		}
		// Two jobs immediately, and 48 more at 20 per second.
		if got, want := time.Since(start), 2400*time.Millisecond; got != want {
			t.Errorf("it took %v, want %v", got, want)
		}
	})
}

func TestJobsPastTheirDeadlineFailImmediately(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		var out strings.Builder
		err := work(ctx, &out, 4, mails(3))
		if !errors.Is(err, headgate.ErrWouldExceedDeadline) || strings.Count(out.String(), "sent") != 2 {
			t.Errorf("got %v and %q, want two sent and %v", err, out.String(), headgate.ErrWouldExceedDeadline)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("it took %v, want 0 s", took)
		}
	})
}
