package headgate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// withoutHolds is a store whose only methods are those of Store.
type withoutHolds struct{ headgate.Store }

// Bind returns a bound rule whose only methods are those of Bound.
func (s withoutHolds) Bind(r headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(r)
	return struct{ headgate.Bound }{b}, err
}

func TestStoreWithoutHolds(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, withoutHolds{memstore.New(nil)}, "", nil, "10/s")
	_, hold := l.Hold(t.Context(), "key", 1, time.Minute)
	_, debit := l.Debit(t.Context(), "key", 1)
	_, _, upTo := l.TakeUpTo(t.Context(), "key", 1)
	for call, err := range map[string]error{"holds": hold, "Debit": debit, "TakeUpTo": upTo} {
		if !errors.Is(err, headgate.ErrUnsupported) || !strings.HasSuffix(err.Error(), ": the store does not support "+call) {
			t.Errorf("%s: got %v want ErrUnsupported that names the call", call, err)
		}
	}
}
