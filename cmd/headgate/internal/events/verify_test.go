package events_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/events"
)

// [snippet verify]

// verify returns an error unless a webhook is signed with the secret and is recent.
func verify(secret string, header http.Header, body []byte, now time.Time) error {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return err
	}
	seconds, err := strconv.ParseInt(header.Get("webhook-timestamp"), 10, 64)
	if err != nil {
		return err
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > 5*time.Minute || age < -5*time.Minute {
		return errors.New("the webhook is too old")
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(header.Get("webhook-id") + "." + header.Get("webhook-timestamp") + "."))
	mac.Write(body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for _, got := range strings.Fields(header.Get("webhook-signature")) {
		if hmac.Equal([]byte(got), []byte(want)) {
			return nil
		}
	}
	return errors.New("the signature is wrong")
}

// [end verify]

// The Python code in docs/guides/events.md accepts the same webhooks.
func TestVerifyInPython(t *testing.T) {
	t.Parallel()
	key, err := events.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	body, now := `{"type":"limit.near"}`, time.Now().Unix()
	for _, c := range []struct {
		at    int64
		body  string
		valid bool
	}{{now, body, true}, {now, "{}", false}, {now - 400, body, false}} {
		headers := map[string]string{
			"webhook-id": "msg_1", "webhook-timestamp": strconv.FormatInt(c.at, 10),
			"webhook-signature": "v1,AAAA " + events.Sign(key, "msg_1", c.at, []byte(body)),
		}
		input, err := json.Marshal(map[string]any{"headers": headers, "body": c.body})
		if err != nil {
			t.Fatal(err)
		}
		python := exec.CommandContext(t.Context(), "/usr/bin/python3", "testdata/verify.py")
		python.Env, python.Stdin = append(os.Environ(), "WEBHOOK_SECRET="+secret), bytes.NewReader(input)
		if out, err := python.CombinedOutput(); (err == nil) != c.valid {
			t.Errorf("%+v: got error %v want none: %v\n%s", c, err, c.valid, out)
		}
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	key, err := events.ParseSecret(secret)
	if err != nil {
		t.Fatal(err)
	}
	now, body := time.Unix(1_800_000_000, 0), []byte(`{"type":"limit.near"}`)
	signed := func(at time.Time, signatures ...string) http.Header {
		h := http.Header{}
		h.Set("webhook-id", "msg_1")
		h.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
		h.Set("webhook-signature", strings.Join(append(signatures, events.Sign(key, "msg_1", at.Unix(), body)), " "))
		return h
	}
	for name, c := range map[string]struct {
		header http.Header
		body   string
		valid  bool
	}{
		"valid":            {signed(now), string(body), true},
		"two signatures":   {signed(now, "v1,AAAA"), string(body), true},
		"another body":     {signed(now), "{}", false},
		"too old":          {signed(now.Add(-6 * time.Minute)), string(body), false},
		"from the future":  {signed(now.Add(6 * time.Minute)), string(body), false},
		"without a header": {http.Header{}, string(body), false},
	} {
		if err := verify(secret, c.header, []byte(c.body), now); (err == nil) != c.valid {
			t.Errorf("%s: got error %v want none: %v", name, err, c.valid)
		}
	}
}

// docs/guides/events.md has the body of a webhook.
func TestBodyOfTheGuide(t *testing.T) {
	t.Parallel()
	remaining, at := int64(100), time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	ends := at.Add(time.Hour)
	body, err := json.Marshal(&events.Event{Type: events.NearLimit, Time: at, Data: events.Data{
		Instance: "headgate-0", Policy: "api", Limit: headgate.MustParseLimit("1000/1h").String(), Key: "h:5f2f4ac9c1d1d8b4", Warn: "90%",
		Remaining: &remaining, Capacity: 1000, Ends: &ends,
	}})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../../../docs/guides/events.md")
	if err != nil || !bytes.Contains(page, body) {
		t.Errorf("the page does not contain the body (error %v)\n%s", err, body)
	}
}
