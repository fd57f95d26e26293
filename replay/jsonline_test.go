package replay

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

func TestJSONLine(t *testing.T) {
	for _, tt := range []struct {
		name, line string
		at, cost   int64
		key        string
		reason     string
	}{
		{name: "plain", line: `{"ts_us":1747821903000000,"key":"203.0.113.9","cost":2}`, at: 1747821903000000, key: "203.0.113.9", cost: 2},
		{name: "no cost", line: `{"ts_us":1,"key":"a"}`, at: 1, key: "a", cost: 1},
		{name: "cost 0", line: `{"ts_us":1,"key":"a","cost":0}`, at: 1, key: "a"},
		{name: "largest cost", line: `{"ts_us":1,"key":"a","cost":9223372036854775807}`, at: 1, key: "a", cost: 9223372036854775807},
		{name: "latest instant", line: `{"ts_us":5851439254740991,"key":"a"}`, at: 5851439254740991, key: "a", cost: 1},
		{name: "other order and spaces", line: " {\t\"cost\" : 3 , \"key\":\"a\" ,\"ts_us\": 7 } ", at: 7, key: "a", cost: 3},
		{name: "empty key", line: `{"ts_us":1,"key":""}`, at: 1, cost: 1},
		{name: "escapes", line: `{"ts_us":1,"key":"\u00e9\"\\\/\b\f\n\r\t\ud83d\ude00"}`, at: 1, cost: 1, key: "é\"\\/\b\f\n\r\t😀"},
		{name: "half a surrogate", line: `{"ts_us":1,"key":"\ud83d"}`, at: 1, cost: 1, key: "\ufffd"},
		{name: "not ASCII", line: `{"ts_us":1,"key":"é"}`, at: 1, cost: 1, key: "é"},
		{name: "unknown fields", line: `{"a":"x","b":[1,{"key":"no"}],"ts_us":1,"c":null,"d":1.5e3,"key":"a","e":true}`, at: 1, cost: 1, key: "a"},
		{name: "names are exact", line: `{"ts_us":1,"key":"a","Cost":5,"KEY":"b"}`, at: 1, cost: 1, key: "a"},
		{name: "the last of equal names", line: `{"ts_us":1,"key":"a","key":"b","cost":1,"cost":2}`, at: 1, cost: 2, key: "b"},

		{name: "no JSON", line: `ts_us=1`, reason: badNotJSON},
		{name: "array", line: `[1]`, reason: badNotJSON},
		{name: "null", line: `null`, reason: badNotJSON},
		{name: "two objects", line: `{"ts_us":1,"key":"a"}{}`, reason: badNotJSON},
		{name: "cut off", line: `{"ts_us":1,"key":"a"`, reason: badNotJSON},
		{name: "string cut off", line: `{"ts_us":1,"key":"a","x":"null}`, reason: badNotJSON},
		{name: "control character", line: "{\"ts_us\":1,\"key\":\"a\x01\"}", reason: badNotJSON},
		{name: "leading zero", line: `{"ts_us":01,"key":"a"}`, reason: badNotJSON},
		{name: "not UTF-8", line: "{\"ts_us\":1,\"key\":\"\xff\"}", reason: errBadUTF8},
		{name: "no time", line: `{"key":"a"}`, reason: badTS},
		{name: "time null", line: `{"ts_us":null,"key":"a"}`, reason: badTS},
		{name: "time a string", line: `{"ts_us":"1","key":"a"}`, reason: badTS},
		{name: "time a fraction", line: `{"ts_us":1.0,"key":"a"}`, reason: badTS},
		{name: "time past 64 bits", line: `{"ts_us":9223372036854775808,"key":"a"}`, reason: badTS},
		{name: "time negative", line: `{"ts_us":-1,"key":"a"}`, reason: badTSRange},
		{name: "time too late", line: `{"ts_us":5851439254740992,"key":"a"}`, reason: badTSRange},
		{name: "no key", line: `{"ts_us":1}`, reason: badKey},
		{name: "key null", line: `{"ts_us":1,"key":null}`, reason: badKey},
		{name: "key a number", line: `{"ts_us":1,"key":1}`, reason: badKey},
		{name: "cost null", line: `{"ts_us":1,"key":"a","cost":null}`, reason: badCost},
		{name: "cost a fraction", line: `{"ts_us":1,"key":"a","cost":1.5}`, reason: badCost},
		{name: "refund above 2^53-1", line: `{"ts_us":1,"key":"a","op":"refund","cost":9007199254740992}`, reason: "cost is above 9007199254740991"},
		{name: "cost negative", line: `{"ts_us":1,"key":"a","cost":-1}`, reason: badNegative},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var r jsonRecord
			if reason := r.parse([]byte(tt.line)); reason != tt.reason {
				t.Fatalf("parse(%s): reason %q, want %q", tt.line, reason, tt.reason)
			}
			if tt.reason == "" && (r.at != tt.at || r.cost != tt.cost || string(r.key) != tt.key) {
				t.Errorf("parse(%s) = %d, %q, %d; want %d, %q, %d", tt.line, r.at, r.key, r.cost, tt.at, tt.key, tt.cost)
			}
		})
	}
}

// FuzzJSONLine: parsePlain must not accept what parseAny rejects, nor parse it
// differently.
func FuzzJSONLine(f *testing.F) {
	for _, line := range []string{
		`{"ts_us":1747821903000000,"key":"203.0.113.9","cost":2}`, `{"a":null,"key":"x\n","ts_us":1}`, `{"key":"","ts_us":0,"x":-1.5e3}`,
		`{"ts_us":1,"key":"a","x":"null}`, `{"ts_us":123456789012345678,"key":"a"} `, `{"ts_us":00,"key":"a"}`, `{}`, `{"ts_us":1,"key":"a",}`,
		`{"ts_us":1,"key":"a","x":truefalse}`, `{"ts_us":1,"key":"a""cost":2}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		var short, long jsonRecord
		if short.parsePlain(line) {
			reason := long.parseAny(line)
			if reason != "" || short.at != long.at || short.cost != long.cost || !bytes.Equal(short.key, long.key) {
				t.Errorf("parsePlain(%q) = %+v; parseAny says %+v, %q", line, short, long, reason)
			}
		}
		if reason := long.parse(line); reason == "" && !json.Valid(line) {
			t.Errorf("parse(%q) read what is no JSON", line)
		}
	})
}

// FuzzAppendJSONString: appended strings decode like the output of encoding/json.
func FuzzAppendJSONString(f *testing.F) {
	for _, key := range []string{"", "a", "\"\\\n\r\t\x00\x1f", "<&>", "é😀\u2028\u2029\ufffd", "\xff\xfe", "\xed\xa0\x80", "\x7f"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		got := appendJSONString(nil, key)
		if !json.Valid(got) || !utf8.Valid(got) {
			t.Fatalf("appendJSONString(%q) = %q, which is no JSON", key, got)
		}
		standard, err := json.Marshal(key)
		if err != nil {
			t.Fatal(err)
		}
		var is, want string
		if err := json.Unmarshal(got, &is); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(standard, &want); err != nil {
			t.Fatal(err)
		}
		if is != want {
			t.Errorf("appendJSONString(%q) reads back as %q, want %q", key, is, want)
		}
	})
}
