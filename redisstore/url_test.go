package redisstore

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// parseOptions does what Open does before it connects.
func parseOptions(raw string) (*target, Options, error) {
	t, err := parseURL(raw)
	if err != nil {
		return nil, Options{}, err
	}
	var o Options
	if err := t.apply(&o); err != nil {
		return nil, o, err
	}
	_, err = t.client()
	return t, o, err
}

func TestParseURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]target{
		"redis://localhost":                        {kind: single, addresses: []string{"localhost:6379"}},
		"REDIS://localhost":                        {kind: single, addresses: []string{"localhost:6379"}},
		"redis://10.0.0.1:7000/3":                  {kind: single, addresses: []string{"10.0.0.1:7000"}, database: 3},
		"redis://10.0.0.1:7000/":                   {kind: single, addresses: []string{"10.0.0.1:7000"}},
		"redis://a,b:2,c/1":                        {kind: single, addresses: []string{"a:6379", "b:2", "c:6379"}, database: 1},
		"redis://[::1]":                            {kind: single, addresses: []string{"[::1]:6379"}},
		"redis://[fe80::1%eth0]:7000,[::2]":        {kind: single, addresses: []string{"[fe80::1%eth0]:7000", "[::2]:6379"}},
		"redis://:pw@h":                            {kind: single, addresses: []string{"h:6379"}, password: "pw"},
		"redis://u:pw@h":                           {kind: single, addresses: []string{"h:6379"}, user: "u", password: "pw"},
		"redis://u:@h":                             {kind: single, addresses: []string{"h:6379"}, user: "u"},
		"redis://:@h":                              {kind: single, addresses: []string{"h:6379"}},
		"redis://@h":                               {kind: single, addresses: []string{"h:6379"}},
		"redis://u%3A1:a%40b%2Fc%3Ad%25e%3Ff@h":    {kind: single, addresses: []string{"h:6379"}, user: "u:1", password: "a@b/c:d%e?f"},
		"redis://u:a@b/c:d#e@h/2":                  {kind: single, addresses: []string{"h:6379"}, user: "u", password: "a@b/c:d#e", database: 2},
		"rediss://h:6380":                          {kind: single, secure: true, addresses: []string{"h:6380"}},
		"redis+sentinel://a,b:5/main":              {kind: sentinel, addresses: []string{"a:26379", "b:5"}, master: "main"},
		"redis+sentinel://u:p@a/main?db=4":         {kind: sentinel, addresses: []string{"a:26379"}, master: "main", user: "u", password: "p", database: 4},
		"rediss+sentinel://a/main":                 {kind: sentinel, secure: true, addresses: []string{"a:26379"}, master: "main"},
		"redis+cluster://a:7000,b:7001":            {kind: cluster, addresses: []string{"a:7000", "b:7001"}},
		"redis+cluster://a/0":                      {kind: cluster, addresses: []string{"a:6379"}},
		"rediss+cluster://u:p@a":                   {kind: cluster, secure: true, addresses: []string{"a:6379"}, user: "u", password: "p"},
		"redis+unix:///run/redis.sock":             {kind: socket, addresses: []string{"/run/redis.sock"}},
		"redis+unix:///run/a@b.sock?db=2":          {kind: socket, addresses: []string{"/run/a@b.sock"}, database: 2},
		"redis+unix://u:p@/run/redis.sock":         {kind: socket, addresses: []string{"/run/redis.sock"}, user: "u", password: "p"},
		"rediss://h?insecure=true":                 {kind: single, secure: true, addresses: []string{"h:6379"}},
		"redis+sentinel://a/m?sentinel_password=x": {kind: sentinel, addresses: []string{"a:26379"}, master: "m"},
	} {
		got, _, err := parseOptions(raw)
		if err != nil {
			t.Errorf("%s: %v", raw, err)
			continue
		}
		got.params = nil
		if !reflect.DeepEqual(*got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", raw, *got, want)
		}
	}
}

func TestURLOptions(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]Options{
		"redis://h": {},
		"redis://h?namespace=shop&layout=guide&timeout=70ms": {Namespace: "shop", Layout: LayoutGuide, Timeout: 70 * time.Millisecond},
		"redis://h?denial_memory=-1s&batching=false":         {DenialCacheTTL: -time.Second, NoBatching: true},
		"redis://h?namespace=a%20b&batching=true":            {Namespace: "a b"},
	} {
		if _, got, err := parseOptions(raw); err != nil || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) {
			t.Errorf("%s:\n got %+v, error %v\nwant %+v", raw, got, err, want)
		}
	}
}

// Every URL with a password, or with what may be one, contains the word secret.
func TestInvalidURL(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ raw, part string }{
		{"", "scheme"},
		{"secret", "scheme"},
		{"host:6379", "scheme"},
		{"://secret", "scheme"},
		{"http://u:secret@h", "scheme"},
		{"redis+http://u:secret@h", "scheme"},
		{"redissss://u:secret@h", "scheme"},
		{"redis+unixsecret://h", "scheme"},
		{"rediss+unix:///run/secret.sock", "scheme"},
		{"redis://h?ca=secret", "scheme"},
		{"redis://h?insecure=true", "scheme"},
		{"redis://h?verify_name=false", "scheme"},
		{"redis://", "address"},
		{"redis:///0", "address"},
		{"redis://u:secret@", "address"},
		{"redis://u:secret@/0", "address"},
		{"redis://u:secret@a,,b", "address 2"},
		{"redis://u:secret@a,", "address 2"},
		{"redis://u:secret@:6379", "address 1"},
		{"redis://u:secret@1:2:3", "address 1"},
		{"redis://u:secret@::1", "address 1"},
		{"redis://u:secret@[::1", "address 1"},
		{"redis://u:secret@h#x", "address 1"},
		{"redis://u:secret@h h", "address 1"},
		{"redis://u:secret@h\n", "address 1"},
		{"redis://u:secret", "port of address 1"},
		{"redis://:secret/0", "port of address 1"},
		{"redis://u:secret@h:", "port of address 1"},
		{"redis://u:secret@h:0", "port of address 1"},
		{"redis://u:secret@h:65536", "port of address 1"},
		{"redis://u:secret@h:-1", "port of address 1"},
		{"redis://u:secret@h:+1", "port of address 1"},
		{"redis://u:secret@a:1,b:port", "port of address 2"},
		{"redis://u:%zzsecret@h", "user and password"},
		{"redis://secret@h", "user and password"},
		{"redis://:12?secret@h", "parameters"},
		{"redis://u:12?secret@h", "parameters"},
		{"redis://u:12/secret?x@h", "parameters"},
		{"redis://u:12?a=b&secret@h:6379", "parameters"},
		{"redis://u:secret@h?%zz", "parameters"},
		{"redis://u:secret@h?=1", "parameters"},
		{"redis://u:secret@h/x", "database"},
		{"redis://u:secret@h/-1", "database"},
		{"redis://u:secret@h/1/2", "database"},
		{"redis://h/secret", "database"},
		{"redis://u:secret@h/99999999", "database"},
		{"redis+cluster://u:secret@h/1", "database"},
		{"redis+sentinel://u:secret@h", "master name"},
		{"redis+sentinel://u:secret@h/", "master name"},
		{"redis+sentinel://u:secret@h/a/b", "master name"},
		{"redis+sentinel://u:secret@h/m?db=x", "parameter db"},
		{"redis+unix://secret.sock", "path"},
		{"redis+unix://u:secret@run/redis.sock", "path"},
		{"redis+unix:///run/x.sock?db=x", "parameter db"},
		{"redis://u:secret@h?colour=blue", `parameter "colour"`},
		{"redis://u:secret@h?db=1", `parameter "db"`},
		{"redis://u:secret@h?sentinel_user=x", `parameter "sentinel_user"`},
		{"redis://u:secret@h?timeout=1s&timeout=2s", "parameter timeout"},
		{"redis://u:secret@h?timeout=soon", "parameter timeout"},
		{"redis://u:secret@h?timeout=0s", "parameter timeout"},
		{"redis://u:secret@h?timeout=-1s", "parameter timeout"},
		{"redis://u:secret@h?denial_memory=0s", "parameter denial_memory"},
		{"redis://u:secret@h?batching=perhaps", "parameter batching"},
		{"rediss://u:secret@h?insecure=perhaps", "parameter insecure"},
		{"rediss://u:secret@h?verify_name=perhaps", "parameter verify_name"},
		{"rediss://u:secret@h?ca=/no/such/file", "parameter ca"},
		{"rediss://u:secret@h?ca=/dev/null", "parameter ca"},
		{"rediss://u:secret@h?cert=/no/such/file", "parameters cert and key"},
	} {
		_, _, err := parseOptions(c.raw)
		var wrong *URLError
		if !errors.As(err, &wrong) || !errors.Is(err, ErrInvalidURL) {
			t.Errorf("%q: got error %v want a *URLError", c.raw, err)
			continue
		}
		if wrong.Part != c.part || wrong.Reason == "" {
			t.Errorf("%q: got part %q (%s) want %q", c.raw, wrong.Part, wrong.Reason, c.part)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error %q contains what may be a password", c.raw, err)
		}
	}
}

func TestInvalidURLOptions(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"redis://h?layout=other":                         "Layout is",
		"redis://h?namespace=" + strings.Repeat("n", 65): "Namespace is 65 bytes long",
	} {
		if _, err := Open(raw, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v want one that contains %q", raw, err, want)
		}
	}
}

// Any text is a valid URL or an error with the invalid part. No error contains the
// password.
func FuzzParseURL(f *testing.F) {
	for _, raw := range []string{
		"redis://u:p@h:1,h:2/3?namespace=n", "rediss://h?insecure=true", "redis+sentinel://u:p@a,b/m?db=1&sentinel_user=x",
		"redis+cluster://[::1]:7000,b", "redis+unix://u:p@/run/x.sock?db=1", "redis://u:12?p@h", "redis://%zz@h", "redis://a:1:2",
	} {
		f.Add(raw, "a@b/c:d?e%f#g&h=i")
	}
	f.Fuzz(func(t *testing.T, raw, password string) {
		got, _, err := parseOptions(raw)
		var wrong *URLError
		switch {
		case err != nil && (!errors.As(err, &wrong) || wrong.Part == "" || wrong.Reason == ""):
			t.Fatalf("%q: got error %v want one with the invalid part", raw, err)
		case err == nil && len(got.addresses) == 0:
			t.Fatalf("%q: got no address", raw)
		}
		hidden := "s3cret" + password
		for _, text := range []string{"redis://u:%s@h:x", "redis://u:%s@h/x", "redis://u:%s", "redis://:%s/0", "redis://%s@h"} {
			if _, _, err := parseOptions(fmt.Sprintf(text, hidden)); err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Fatalf("%s with %q: the error %q contains the password", text, hidden, err)
			}
		}
	})
}
