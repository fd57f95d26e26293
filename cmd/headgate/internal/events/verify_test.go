package events_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/events"
)

// verify returns an error unless a webhook is signed with the secret, and not older than
// 5 minutes.
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
