package headgate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// One process opens a hold, and another one commits it. They share the store and the text
// that identifies the work.
func ExampleHoldIDOf() {
	ctx := context.Background()
	store := memstore.New(nil)
	defer store.Close()
	tokens, err := headgate.New(store, headgate.MustNamedPolicy("tokens", "1000/1h"), nil)
	if err != nil {
		panic(err)
	}
	check := headgate.Check{Limiter: tokens, Key: "acme", Cost: 400}
	hold, err := headgate.HoldAll(ctx, &headgate.HoldOptions{ID: "job-17", TTL: time.Minute}, check)
	if err != nil {
		panic(err)
	}

	id, err := headgate.HoldIDOf("job-17")
	if err != nil {
		panic(err)
	}
	result, err := headgate.ResumeHold(id, hold.ExpiresAt(), check).Commit(ctx, 150)
	if err != nil {
		panic(err)
	}
	fmt.Println(result.Decision.Remaining, "of", result.Decision.Limit, "are left")
	// Output: 850 of 1000 are left
}

func TestHoldIDText(t *testing.T) {
	t.Parallel()
	id, err := headgate.HoldIDOf("job-17")
	if err != nil || id.String() != "ebd62415c0d253cbc0365dfe49a810de" {
		t.Errorf("got id %v, error %v", id, err)
	}
	for _, id := range []headgate.HoldID{id, {}, headgate.NewHoldID()} {
		if parsed, err := headgate.ParseHoldID(id.String()); err != nil || parsed != id {
			t.Errorf("parse %v: got %v, error %v", id, parsed, err)
		}
	}
	a, errA := headgate.HoldIDOf("")
	b, errB := headgate.HoldIDOf("")
	if errA != nil || errB != nil || a == b {
		t.Errorf("without a text: got %v and %v, errors %v and %v want random ids", a, b, errA, errB)
	}
	if _, err := headgate.HoldIDOf(strings.Repeat("x", 129)); !errors.Is(err, headgate.ErrInvalidHold) {
		t.Errorf("129 bytes: got error %v want ErrInvalidHold", err)
	}
	for _, text := range []string{"", "abc", "job-17", strings.Repeat("0", 31), strings.Repeat("0", 33), strings.Repeat("g", 32)} {
		if _, err := headgate.ParseHoldID(text); !errors.Is(err, headgate.ErrInvalidHold) || !strings.Contains(err.Error(), "32 hexadecimal digits") {
			t.Errorf("%q: got error %v want ErrInvalidHold", text, err)
		}
	}
}
