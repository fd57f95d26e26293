package main

import (
	"testing"

	"github.com/headgate/headgate/examples/internal/expect"
)

func TestRouteLimits(t *testing.T) {
	t.Parallel()
	handler, err := newHandler()
	if err != nil {
		t.Fatal(err)
	}
	expect.RouteLimits(t, handler)
}

func TestFailedLoginLimit(t *testing.T) {
	t.Parallel()
	handler, err := newHandler()
	if err != nil {
		t.Fatal(err)
	}
	expect.FailedLoginLimit(t, handler)
}
