package main

import (
	"cmp"
	"strings"
)

// A script decides by one step of a token bucket for each of its keys. What differs is how a state is read and written. The
// arithmetic is the same everywhere and shorter than the real one: admitted as long as TAT stays within the burst, which it does.
const script = `
local call, floor, max = redis.call, math.floor, math.max
local pack, unpack_value = struct.pack, struct.unpack
local format, match = string.format, string.match
local clock = call('TIME')
local t = clock[1] * 1000000 + clock[2]
READ
local unit, full, life = 1000, 3600000000, ARGV[1]
local answers, changed = {}, {}
local at = format('%d', t / 1000 + life)
for i = 1, #KEYS do
  local key, s = KEYS[i], states[i]
  local a, b, c = 0, 0, 0
  if s then
    DECODE
  end
  local tat = max(a, t) + unit
  local past = tat - t - full
  if past <= 0 then
    local ms = floor((tat - t) / 1000) + 1
    local value = ENCODE
    WRITE
  end
  ANSWER
end
AFTER
`

// form is one way to read, write and answer; empty fields are those of SET PX.
type form struct {
	name, read, decode, encode, write, answer, after string
}

const (
	mget         = "local states = call('MGET', unpack(KEYS))"
	getEach      = "local states = {} for i = 1, #KEYS do states[i] = call('GET', KEYS[i]) end"
	oneNumber    = "answers[i] = past"
	fourNumbers  = "local j = 4 * i answers[j - 3], answers[j - 2], answers[j - 1], answers[j] = 1, floor(-past / unit), 0, tat - t"
	fourPacked   = "answers[i] = pack('<dddd', 1, floor(-past / unit), 0, tat - t)"
	packed       = "pack('<ddd', tat, b, c)"
	unpackPacked = "a, b, c = unpack_value('<ddd', s)"
	text         = "format('%.0f:%.0f:%.0f', tat, b, c)"
	unpackText   = "local x, y, z = match(s, '^(%d+):(%d+):(%d+)$') a, b, c = x + 0, y + 0, z + 0"
	setPX        = "call('SET', key, value, 'PX', ms)"
	setArg       = "call('SET', key, value, 'PX', life)"
	setRange     = "call('SETRANGE', key, '0', value)"
)

var forms = []form{
	{name: "SET PX, the time a number", write: setPX},
	{name: "no write at all: what else the script costs", write: " "},
	{
		name: "MSET after the loop: loses the TTL", write: "changed[#changed + 1] = key changed[#changed + 1] = value",
		after: "call('MSET', unpack(changed))",
	},
	{name: "SET PX, the time formatted by %d", write: "call('SET', key, value, 'PX', format('%d', ms))"},
	{name: "SET PX, the time an argument of the script", write: setArg},
	{name: "SET PXAT, the time a number", write: "call('SET', key, value, 'PXAT', floor(t / 1000) + ms)"},
	{name: "SET PXAT, the time formatted once for all keys", write: "call('SET', key, value, 'PXAT', at)"},
	{name: "PSETEX, the time a number", write: "call('PSETEX', key, ms, value)"},
	{name: "PSETEX, the time an argument of the script", write: "call('PSETEX', key, life, value)"},
	{name: "SET KEEPTTL", write: "call('SET', key, value, 'KEEPTTL')"},
	{name: "SETRANGE 0, the offset a number: keeps the TTL", write: "call('SETRANGE', key, 0, value)"},
	{name: "SETRANGE '0': keeps the TTL", write: setRange},
	{name: "SET and PEXPIREAT", write: "call('SET', key, value) call('PEXPIREAT', key, floor(t / 1000) + ms)"},
	{name: "SETRANGE '0' and PEXPIREAT", write: setRange + " call('PEXPIREAT', key, at)"},
	{name: "SETRANGE '0', the value text", decode: unpackText, encode: text, write: setRange},
	{
		name: "SETRANGE '0', the value packed by cmsgpack", decode: "a, b, c = cmsgpack.unpack(s)",
		encode: "cmsgpack.pack(tat, b, c)", write: setRange,
	},
	{name: "SETRANGE '0', a GET for each key instead of MGET", read: getEach, write: setRange},
	{name: "SETRANGE '0', four numbers a key in the reply", write: setRange, answer: fourNumbers},
	{
		name: "SETRANGE '0', four numbers a key in one packed string", write: setRange, answer: fourPacked,
		after: "answers = table.concat(answers)",
	},
}

// script is the form's text for many keys, or for one, which needs no MGET.
func (f form) script(one bool) string {
	if one {
		f.read = cmp.Or(f.read, "local states = {call('GET', KEYS[1])}")
	}
	text := strings.NewReplacer(
		"READ", cmp.Or(f.read, mget), "DECODE", cmp.Or(f.decode, unpackPacked), "ENCODE", cmp.Or(f.encode, packed),
		"WRITE", cmp.Or(f.write, setArg), "ANSWER", cmp.Or(f.answer, oneNumber), "AFTER", f.after,
	).Replace(script)
	return text + "return answers\n"
}

// fill is the same form's script that writes every key once, always with a TTL.
func (f form) fill() string {
	f.write, f.after = setArg, ""
	return f.script(false)
}

// takes reports whether f can go on with the keys that before left behind.
func (f form) takes(before form) bool {
	return f.decode == before.decode && !strings.Contains(before.after, "MSET")
}
