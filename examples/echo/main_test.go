package main

import (
	"testing"

	"github.com/headgate/headgate/examples/internal/expect"
)

func TestEachRouteHasItsOwnLimit(t *testing.T) {
	t.Parallel()
	handler, err := newHandler()
	if err != nil {
		t.Fatal(err)
	}
	expect.ALimitForEachRoute(t, handler)
}

func TestOnlyWrongPasswordsCount(t *testing.T) {
	t.Parallel()
	handler, err := newHandler()
	if err != nil {
		t.Fatal(err)
	}
	expect.OnlyWrongPasswordsCount(t, handler)
}
