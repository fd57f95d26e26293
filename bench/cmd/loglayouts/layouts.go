package main

import (
	_ "embed"
	"math"
	"strings"
)

var (
	//go:embed begin.lua
	begin string
	//go:embed decide.lua
	decide string
	//go:embed list.lua
	list string
	//go:embed zset.lua
	zset string
	//go:embed front.lua
	front string
	//go:embed back.lua
	back string
	//go:embed whole.lua
	whole string
)

// layout is one way to keep a log.
type layout struct {
	name, text string
	most       int // entries that it is tried with
}

func layouts() []layout {
	return []layout{
		{"list", list, math.MaxInt},
		{"sorted set", zset, math.MaxInt},
		{"string, header in front", front, math.MaxInt},
		{"string, header in front, TTL seldom", strings.ReplaceAll(front, always, seldom), math.MaxInt},
		{"string, header behind", back, math.MaxInt},
		{"string, header behind, TTL seldom", strings.ReplaceAll(back, always, seldom), math.MaxInt},
		{"string, read and written whole", whole, 1000},
	}
}

const always = "  call('PEXPIRE', key, life)\n"

// seldom sets a TTL in the one write of 64 that is as good as any other. A store would keep until when the TTL lasts instead; the
// cost is the same.
const seldom = `  if count % 64 == 0 then
    call('PEXPIRE', key, life)
  end
`

func (l layout) script() string { return begin + l.text + decide }
