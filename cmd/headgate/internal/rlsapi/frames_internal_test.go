package rlsapi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/bounded"
)

// frame encodes a frame.
func frame(kind, flags byte, id uint32, payload string) string {
	n := len(payload)
	return string([]byte{byte(n >> 16), byte(n >> 8), byte(n), kind, flags, byte(id >> 24), byte(id >> 16), byte(id >> 8), byte(id)}) + payload
}

// The frames and messages are the same in whatever pieces the bytes arrive.
func TestFramesInPieces(t *testing.T) {
	t.Parallel()
	input := "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, "") +
		frame(frameHeaders, flagEndHeaders, 1, "fields") +
		frame(frameData, 0, 1, "\x00\x00\x00\x00\x03ab") +
		frame(frameData, flagPadded, 1, "\x02c\x00\x00\x00\x00\x05xx") + // a prefix follows the first message
		frame(frameHeaders, 0, 3, "fie") + frame(frameContinuation, flagEndHeaders, 3, "lds") +
		frame(frameData, flagPadded|flagEndStream, 1, "\x0012345") +
		frame(frameReset, 0, 3, "1234")
	want := []string{"4/0 false", "1/1 false", "0/1 false", "0/1 false", "1/3 true", "9/3 false", "0/1 false", "3/3 false"}
	for size := 1; size <= len(input); size++ {
		f, m := frames{preface: prefaceLength}, messages{}
		var got []string
		for rest := input; rest != ""; {
			piece := []byte(rest[:min(size, len(rest))])
			rest = rest[len(piece):]
			for len(piece) > 0 {
				after, message, _, ends := f.next(piece)
				piece = after
				m.add(message)
				if ends {
					got = append(got, fmt.Sprintf("%d/%d %v", f.kind, f.id, f.block))
				}
			}
		}
		if !slices.Equal(got, want) || f.partial() || m.complete != 2 || m.partial() {
			t.Fatalf("in pieces of %d bytes: %s, %d messages, partial: %v, %v", size, strings.Join(got, ", "), m.complete, f.partial(), m.partial())
		}
	}
}

// Empty messages, and several in one frame, are counted.
func TestMessages(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		input    string
		complete int64
		partial  bool
	}{
		{"", 0, false},
		{"\x00\x00\x00\x00", 0, true},
		{"\x00\x00\x00\x00\x00", 1, false},
		{"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01x\x00", 2, true},
		{"\x00\xff\xff\xff\xffxxx", 0, true},
	} {
		m := messages{}
		if m.add([]byte(c.input)); m.complete != c.complete || m.partial() != c.partial {
			t.Errorf("%q: %d complete, partial: %v; want %d, %v", c.input, m.complete, m.partial(), c.complete, c.partial)
		}
	}
}

// BenchmarkObserveRequest measures the cost of the frames of one request and its
// response.
func BenchmarkObserveRequest(b *testing.B) {
	set := bounded.New(bounded.Limits{Connections: 1, Bytes: 1 << 30})
	raw := &bounded.NetConn{Handle: set.Add(connBytes, func() {})}
	c := newConnection(nil, raw, &connLimits{time.Minute, time.Minute, 1 << 20})
	defer c.timer.Stop()
	c.in.preface = 0
	message := "\x00\x00\x00\x00\x03abc"
	id := uint32(1)
	request := []byte(frame(frameHeaders, flagEndHeaders, id, "0123456789") + frame(frameData, flagEndStream, id, message))
	response := []byte(frame(frameHeaders, flagEndHeaders, id, "0") + frame(frameData, 0, id, message) + frame(frameHeaders, flagEndHeaders|flagEndStream, id, "0"))
	b.ReportAllocs()
	for b.Loop() {
		if !c.observe(&c.in, request, c.received) || !c.observe(&c.out, response, c.responded) {
			b.Fatal("the connection is to be closed")
		}
	}
}

// A connection that is not read for lack of memory does not count as one that waits for
// its client. The time does not count for its incomplete requests.
func TestWaitForMemoryIsNotTheClient(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		set := bounded.New(bounded.Limits{Connections: 10, Bytes: 1 << 20})
		open := func() *connection {
			handle := set.Add(connBytes, func() {})
			c := newConnection(nil, &bounded.NetConn{Handle: handle}, &connLimits{time.Minute, time.Minute, 1 << 20})
			c.in.preface = 0
			c.observe(&c.in, []byte(frame(frameHeaders, flagEndHeaders, 1, "0123456789")), c.received)
			return c
		}
		waits, other, third := open(), open(), open()
		begin := waits.streams[1].readSince
		other.handle.Busy()
		third.handle.Busy()
		other.handle.Hold(1 << 20)
		result := make(chan bool)
		go func() { result <- waits.awaitRoom() }()
		time.Sleep(500 * time.Millisecond)
		waits.observe(&waits.out, nil, waits.responded) // a write must not end the state
		if third.handle.Grow(1) || waits.handle.Ended() {
			t.Error("the connection that waits for memory was closed")
		}
		other.handle.Hold(-1 << 20)
		if !<-result {
			t.Error("there is no room")
		}
		if got := waits.streams[1].readSince.Sub(begin); got < 490*time.Millisecond {
			t.Errorf("the request counts as unfinished since %v later, want 500ms", got)
		}
	})
}
