package leaktest

import (
	"strings"
	"testing"
	"time"
)

func TestFind(t *testing.T) {
	end := make(chan bool)
	go func() { <-end }()
	err := find(time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "TestFind") {
		t.Errorf("a goroutine that goes on: got %v, want an error that names it", err)
	}
	time.AfterFunc(600*time.Millisecond, func() { close(end) }) // longer than goleak waits
	if err := find(maxWait); err != nil {
		t.Errorf("a goroutine that ends late: got %v, want nil", err)
	}
}

func TestSince(t *testing.T) {
	outside := make(chan bool)
	go func() { <-outside }()
	defer close(outside)
	check := Since(t)
	inside := make(chan bool)
	go func() { <-inside }()
	close(inside)
	check()
}
