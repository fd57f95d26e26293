package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/headgate/headgate/replay"
)

func TestProgressShowsReadingThenDeciding(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{line: &statusLine{w: &out}, total: 4_000_000}
	p.show(replay.Progress{Bytes: 1_000_000})
	p.show(replay.Progress{Bytes: 1_000_001}) // too soon to be shown
	p.show(replay.Progress{Bytes: 4_000_000, Requests: 5_000_000, Decided: 2_500_000})
	p.line.clear()
	want := "\r\x1b[Kreading [=======                       ]  25 % 1.0 MB" +
		"\r\x1b[K" +
		"\r\x1b[Kdeciding [===============               ]  50 % of 5,000,000 requests" +
		"\r\x1b[K"
	if got := out.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestProgressOfAnUnknownTotal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{line: &statusLine{w: &out}, total: -1}
	p.show(replay.Progress{Bytes: 2_500_000})
	if got, want := out.String(), "\r\x1b[Kreading  2.5 MB"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestProgressOfCurve: the curve decides all requests once more.
func TestProgressOfCurve(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{line: &statusLine{w: &out}, total: 1, curve: true}
	p.show(replay.Progress{Requests: 200, Decided: 200})
	if got := out.String(); !strings.HasSuffix(got, " 50 % of 200 requests") {
		t.Errorf("got %q, want half", got)
	}
}

// A log that grows while it is read is longer than it was.
func TestBarIsNeverLongerThanFull(t *testing.T) {
	t.Parallel()
	if got, want := bar(9, 3), "["+strings.Repeat("=", barWidth)+"] 100 %"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestProgressShowsNothingWithoutATerminal(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &progress{line: newStatusLine(&out), total: 10}
	p.show(replay.Progress{Bytes: 5})
	p.line.clear()
	if out.Len() != 0 {
		t.Errorf("got %q, want nothing", out.String())
	}
}
